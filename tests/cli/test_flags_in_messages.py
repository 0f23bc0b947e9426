"""Messages name settings by the flags that are typed."""

import ast
import dataclasses
import re
from collections.abc import Iterator

import pytest

from tests.test_architecture import PACKAGES
from tutelage_cli.commentary.args import Export, Learn, Show
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.compare.args import Report
from tutelage_cli.config.flags import ByFlag, flag
from tutelage_cli.inspect.args import Inspect
from tutelage_cli.train.args import Train
from tutelage_cli.train.settings import TrainSettings

SETTINGS = {
    field.name
    for cls in (TrainSettings, Train, LearnSettings, Learn, Show, Export, Inspect, Report)
    for field in dataclasses.fields(cls)
}
OF_TWO_WORDS = re.compile(rf"(?<![-\w.])({'|'.join(n for n in SETTINGS if '_' in n)})\b")
OF_FUNCTIONS = {"arm", "limit", "size"}
"""also arguments of functions, of which other messages speak"""
AT_THE_START = re.compile(
    rf"({'|'.join(SETTINGS - OF_FUNCTIONS)}) (is|must|needs|names|takes|does) "
)
SAID_WITH = {"option", "where"}
"""arguments of other functions that come into a message"""


def literal(node: ast.expr) -> str:
    """The text of a string, with ``{}`` for what is computed."""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and type(node.value) is str else "{}"


def messages(source: str) -> Iterator[str]:
    """The texts of errors in a source that a user can correct."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", "")
        if name.endswith("Error"):
            yield from (literal(part) for arg in node.args for part in strings(arg))
        yield from (literal(k.value) for k in node.keywords if k.arg in SAID_WITH)


def strings(node: ast.expr) -> list[ast.expr]:
    return [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]


def bare(text: str) -> bool:
    """Whether a message names a setting without the dashes of its flag."""
    return bool(OF_TWO_WORDS.search(text) or AT_THE_START.match(text))


def test_no_message_names_a_setting_otherwise_than_its_flag() -> None:
    found = [
        f"{path.name}: {text}"
        for path in sorted(PACKAGES["tutelage_cli"].rglob("*.py"))
        for text in messages(path.read_text(encoding="utf-8"))
        if bare(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("raise UsageError(f'give held_out {n} or more')", True),
        ("raise UsageError('seeds must be at least 1')", True),
        ("pick(names, option='label_column')", True),
        ("raise UsageError('give --held-out 3')", False),
        ("raise UsageError(f'{held_out} is too many')", False),
        ("raise UsageError('there are no seeds')", False),
    ],
)
def test_a_bare_name_is_found(source: str, wrong: bool) -> None:
    assert any(map(bare, messages(source))) == wrong


def test_settings_are_read_by_their_flags() -> None:
    settings = TrainSettings(held_out=7)
    assert getattr(ByFlag(settings), flag("held_out")) == 7
    assert flag("held_out") == "--held-out"

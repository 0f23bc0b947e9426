"""The code of a page, run from top to bottom as its reader would, but shorter."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.trained import run

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHORTER = (
    (re.compile(r"(?<=--epochs )\d+"), "1"),
    (re.compile(r"(?<=--seeds )\d+"), "1"),
    (re.compile(r"(?<=--student )resnet8"), "cnn"),
    (re.compile(r"(?<=--limit )\d+"), "200"),
    (re.compile(r"(?<=--episodes )\d+"), "2"),
    (re.compile(r"(?<=--steps )\d+"), "3"),
    (re.compile(r"(?<=\bepochs=)\d+"), "3"),
    (re.compile(r"(?<=^EPOCHS = )\d+", re.MULTILINE), "1"),
    (re.compile(r"(?<=^STEPS = )\d+", re.MULTILINE), "8"),
    (re.compile(r"(?<=^TRAIN = )\d+", re.MULTILINE), "60"),
    (re.compile(r"(?<=^TEST = )\d+", re.MULTILINE), "20"),
)
"""what makes a page's run long, and what stands there when it is tested"""
SHORTEST = ("--jobs", "1"), ("--epochs", "3"), ("--folds", "2"), ("--rounds", "1")
"""flags of a run that a page leaves out"""
FEWER_CONTROLS = ("--controls", "cross-fitted")
"""likewise but for frozen features: tests of the commands have all on images and on texts"""


def blocks(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page that run: their languages and their code, shortened."""
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(language, _shorter(code)) for language, code in found]


def _shorter(code: str) -> str:
    for long, short in SHORTER:
        code = long.sub(short, code)
    return code


def run_blocks(page: Path, before: Sequence[Path] = ()) -> dict[str, Any]:
    """Run a page in the present folder, after the pages that it goes on from."""
    known: dict[str, Any] = {"__name__": "__main__"}
    for place in (*before, page):
        for language, code in blocks(place):
            if language == "python":
                exec(compile(code, str(place), "exec"), known)
            else:
                _run_commands(code)
    return known


def _run_commands(code: str) -> None:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "tutelage", f"{line}: only tutelage runs here; else a block of text"
        if words[1] == "train":
            flags = SHORTEST if "--freeze" in words else (*SHORTEST, FEWER_CONTROLS)
            words += [word for flag in flags if flag[0] not in words for word in flag]
        answer = run(*words[1:])
        assert answer.code == 0, (line, answer)

"""What README, pages and examples use is public: one import, names of at most two dots."""

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tutelage as tl
from tests.docs.blocks import BLOCK, DOCS

ROOT = DOCS.parent
OF_A_CHECKOUT = {DOCS / "recipe-parts.md"}
"""pages on packages that are no part of the library"""
PAGES = [p for p in (ROOT / "README.md", *sorted(DOCS.rglob("*.md"))) if p not in OF_A_CHECKOUT]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NAME = re.compile(r"\btl\.(\w+)(?:\.(\w+))?")
IN_DOCSTRING = re.compile(r"``tutelage\.([\w.]+)``")
DIRECTIVE = re.compile(r"^\.\. auto(?:module|class|function):: ([\w.]+)", re.MULTILINE)
PACKAGES = {
    name: value for name in tl.__all__ if isinstance(value := getattr(tl, name), ModuleType)
}


def public_names() -> dict[str, Any]:
    """Every public name and what it is: ``Tutor``, ``signals``, ``signals.Reversible``."""
    found: dict[str, Any] = {name: getattr(tl, name) for name in tl.__all__}
    for name, package in PACKAGES.items():
        found |= {f"{name}.{inner}": getattr(package, inner) for inner in package.__all__}
    return found


PUBLIC = public_names()


def unknown(text: str) -> list[str]:
    """Names such as ``tl.x.y`` in a text that are not public."""
    found = []
    for first, second in NAME.findall(text):
        name = f"{first}.{second}" if second and first in PACKAGES else first
        found += [] if name in PUBLIC else [name]
    return found


def other_imports(code: str) -> list[str]:
    """Imports of this project's packages but for ``import tutelage as tl``."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [(alias.name, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "", None)]
        else:
            continue
        found += [
            name
            for name, alias in names
            if name.partition(".")[0] in {"tutelage", "tutelage_cli", "papers"}
            and (name, alias) != ("tutelage", "tl")
        ]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_public_names_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = [block for language, block in BLOCK.findall(text) if language == "python"]
    assert [name for block in code for name in other_imports(block)] == []
    assert unknown(text) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_uses_public_names_alone(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert other_imports(text) == []
    assert unknown(text) == []


def test_what_is_not_public_is_found() -> None:
    assert other_imports("from tutelage.signals import Unrolled") == ["tutelage.signals"]
    assert other_imports("import tutelage") == ["tutelage"]
    assert other_imports("def f():\n    import papers.few_shot") == ["papers.few_shot"]
    assert other_imports("import tutelage as tl, torch") == []
    assert unknown("tl.signals.adjoint, tl.bilevel and tl.Tutor.step") == [
        "signals.adjoint",
        "bilevel",
    ]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_name_has_a_docstring_with_its_arguments(name: str) -> None:
    value = PUBLIC[name]
    if not isinstance(value, type | ModuleType) and not inspect.isfunction(value):
        return  # a constant or an alias of types, which have a comment or a string below them
    text = inspect.getdoc(value)
    assert text, name
    if isinstance(value, ModuleType) or not text:
        return
    takes = inspect.signature(value).parameters if inspect.isfunction(value) else {}
    assert not takes or "Args:" in text, name
    assert [inner for inner in IN_DOCSTRING.findall(text) if inner not in PUBLIC] == []


def test_the_api_reference_is_the_public_surface() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    drawn = {name.removeprefix("tutelage.") for name in DIRECTIVE.findall(pages)}
    public = {*PUBLIC, "signals.products", "training.loops", "training.meta_weight_net"}
    assert sorted(drawn - public) == []
    packages = {value.__name__.removeprefix("tutelage.") for value in PACKAGES.values()}
    assert sorted(packages - drawn) == []

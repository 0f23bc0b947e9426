"""The page on odd input names tests that exist, and every test it names is found."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "robustness.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def named_in(file: Path) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def rows() -> list[str]:
    """The rows of the page's tables, without headings."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("| ")]
    return [line for line in table if not line.startswith("| what goes wrong elsewhere")]


def test_every_test_that_the_page_names_exists():
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 60
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file() or name not in named_in(ROOT / file)
    ]
    assert missing == []


def test_every_row_names_a_test():
    assert len(rows()) > 30
    assert [row for row in rows() if not NAMED.search(row)] == []


def test_the_page_is_linked_from_the_first_one():
    assert "docs/robustness.md" in (ROOT / "README.md").read_text(encoding="utf-8")

"""The page on architecture names every part of the packages, and nothing that is gone."""

import re

import pytest

from tests.docs.blocks import DOCS
from tests.test_architecture import LAYERS, PACKAGES

ROOT = DOCS.parent
TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")
PART = re.compile(r"`(\w+)(?:\.py|/)`")


def rows(package: str) -> list[tuple[int, set[str]]]:
    """The rows of a package's table: the layer, and the parts that it names first."""
    table = TEXT.partition(f"### `{package}`")[2].partition("\n### ")[0].partition("\n## ")[0]
    found = re.findall(r"^\| (\d) \| ([^|]+) \|", table, re.MULTILINE)
    return [(int(layer), {*PART.findall(cell)}) for layer, cell in found]


@pytest.mark.parametrize("package", LAYERS)
def test_the_tables_are_the_layers_of_the_code(package: str) -> None:
    layers = LAYERS[package]
    named = [part for _, parts in rows(package) for part in parts]
    assert sorted(named) == sorted(part for layer in layers for part in layer)
    for number, parts in rows(package):
        assert parts <= layers[number], number


def test_every_file_it_names_is_there() -> None:
    there = [path for folder in PACKAGES.values() for path in folder.rglob("*.py")]
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", TEXT))
    gone = [
        name
        for name in named
        if not (ROOT / name).is_file()
        and not any(path.as_posix().endswith(f"/{name}") for path in there)
    ]
    assert gone == []

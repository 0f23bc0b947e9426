"""The page on architecture names every part of the package, and nothing that is gone."""

import re

from tests.docs.blocks import DOCS
from tests.test_architecture import RANK

ROOT = DOCS.parent
TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")
PART = re.compile(r"`(\w+)(?:\.py|/)`")


def floors() -> dict[str, int]:
    """The floor of each part of the package that the table of rooms names."""
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", TEXT, re.MULTILINE)
    return {
        part: int(floor) for floor, cell in rows for part in PART.findall(cell) if part in RANK
    }


def test_every_part_has_a_floor() -> None:
    assert sorted({*RANK} - {*PART.findall(TEXT), "__init__", "__main__"}) == []


def test_lower_floors_hold_lower_layers() -> None:
    found = floors()
    assert len(found) > 40
    wrong = [
        (below, above)
        for below in found
        for above in found
        if found[below] < found[above] and RANK[below] > RANK[above]
    ]
    assert wrong == []


def test_every_file_it_names_is_there() -> None:
    package = ROOT / "src" / "tutelage"
    there = {path.name for path in package.rglob("*.py")}
    named = set(re.findall(r"`((?:\w+/)*)(\w+\.py)`", TEXT))
    gone = [
        folder + name
        for folder, name in named
        if not ((ROOT / folder / name).is_file() if folder else name in there)
        and not (package / folder / name).is_file()
    ]
    assert gone == []

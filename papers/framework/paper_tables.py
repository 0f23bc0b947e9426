"""The papers' printed numbers, notes on differences from them, and other data files."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import yaml

PAPERS = {
    "commentaries": "Raghu et al. 2021, Teaching with Commentaries",
    "gar": "Müller et al. 2021, In-Loop Meta-Learning with Gradient-Alignment Reward",
    "l2tdi": "Fan et al. 2021, Learning to Reweight with Deep Interactions",
    "mmel": "Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal "
    "Expected Loss",
}


class Number(NamedTuple):
    """One cell of a paper's table."""

    value: float
    spread: float | None  # what is printed after the ±; None where nothing is
    unit: str
    decimals: int  # printed in this column of the table
    note: str  # how an unclear number was read; else empty


def printed(paper: str, table: str, row: str, column: str) -> Number:
    """A number as a paper prints it."""
    cells = _cells(paper, table)
    if (row, column) not in cells:
        raise ValueError(
            f"{paper}, {table} has no cell ({row!r}, {column!r}); it has: {list(cells)}."
        )
    cell = cells[row, column]
    # the file has whole numbers without decimals
    values = [str(c["value"]) for (_, col), c in cells.items() if col == column]
    decimals = max(len(value.partition(".")[2]) for value in values)
    note = str(cell.get("note", ""))
    return Number(float(cell["value"]), cell["std"], str(cell["unit"]), decimals, note)


def _cells(paper: str, table: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    chosen = [r for r in _records() if (r["paper"], r["table"]) == (paper, table)]
    return {(str(r["row"]), str(r["column"])): r for r in chosen}


def _records() -> list[Mapping[str, Any]]:
    return package_data("paper_tables.yaml")["records"]


def notes_on(recipe: str) -> list[str]:
    """Notes on what differs from the paper in a recipe, or is missing in the paper."""
    return package_data("notes.yaml").get(recipe, [])


@cache
def package_data(name: str) -> Mapping[str, Any]:
    """The content of a YAML file of this package."""
    file = resources.files("papers.framework").joinpath(name)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, if PyYAML has it
    return yaml.load(file.read_text("utf-8"), Loader=loader)


class Hours(NamedTuple):
    """Number of seeds and expected duration of a recipe at the scale ``hours``."""

    seeds: int
    hours: float
    """on two CPU cores"""


def planned_hours(recipe: str) -> Hours | None:
    """The entry of a recipe in ``hours.yaml``; None if it does not have the scale ``hours``."""
    entry = package_data("hours.yaml").get(recipe)
    return None if entry is None else Hours(**entry)

"""The scale ``hours``: which recipes have it, and with how many seeds."""

from typing import NamedTuple

from papers.framework.paper_tables import package_data


class Hours(NamedTuple):
    """What a recipe runs at the scale ``hours``."""

    seeds: int
    hours: float
    """on two CPU cores"""


def planned_hours(recipe: str) -> Hours | None:
    """The plan of a recipe; None where three hours decide none of its undecided claims."""
    found = package_data("hours.yaml").get(recipe)
    return None if found is None else Hours(**found)

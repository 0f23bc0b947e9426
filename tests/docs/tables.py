"""Tables between two marks of a page, and the figure of one that has no recipe.

``python -m tests.docs.tables`` writes them anew.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs import costs, crossfit_costs, grid, growth, pays, wrong_labels
from tests.docs.measured import ROOT, gains_table
from tests.versions import table as versions

TABLES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "controls": {"crossfit-costs": crossfit_costs.costs},
    "choose": {"grid": grid.table, "gains": gains_table},
    "inspection": wrong_labels.TABLES,
    "performance": {**costs.TABLES, "growth": growth.table},
    "pays": {"cells": pays.cells, "decided": pays.decided},
    "versions": {"versions": versions},
}
"""by page and name"""


def page(name: str) -> Path:
    return ROOT / "docs" / f"{name}.md"


def marked(name: str) -> re.Pattern[str]:
    """What lies between a table's marks."""
    return re.compile(rf"(?<=<!-- table: {name} -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def main() -> None:
    for name, tables in TABLES.items():
        text = page(name).read_text(encoding="utf-8")
        for table, draw in tables.items():
            (old,) = marked(table).findall(text)
            text = text.replace(old, draw())
        page(name).write_text(text, encoding="utf-8")
    growth.FIGURE.write_text(growth.figure(), encoding="utf-8")


if __name__ == "__main__":
    main()

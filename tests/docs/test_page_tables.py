"""What pages say of gains and costs is what was measured; the grid is what comes of trying."""

import re

import pytest
import torch

from benchmarks.teaching_cost_figure import FIGURE, stored_rows
from benchmarks.teaching_cost_figure import drawn as of_teaching
from papers.pays.comparison import curves, drawn
from tests.docs import growth
from tests.docs.costs import stored
from tests.docs.measured import ROOT
from tests.docs.tables import TABLES, marked, page
from tests.trained import unchecked

pytest.importorskip("scipy")
HYPERGRADIENTS = ROOT / "docs" / "hypergradients.md"
ROW = re.compile(
    r"^\| ([^|]+) \| ([^|]+) \| ([\d.]+) \[([\d.]+), ([\d.]+)\], (\d+) \|", re.MULTILINE
)


@pytest.mark.parametrize(
    ("name", "table"), [(name, table) for name, tables in TABLES.items() for table in tables]
)
def test_a_table_is_what_was_measured(name, table) -> None:
    with torch.random.fork_rng(), unchecked():
        drawn = TABLES[name][table]()
    (found,) = marked(table).findall(page(name).read_text(encoding="utf-8"))
    assert found == drawn, "python -m tests.docs.tables writes it anew"


def test_curves_over_checked_labels_are_what_was_measured() -> None:
    shown = set(re.findall(r"results/pays/([^)]+)\.svg", page("pays").read_text("utf-8")))
    assert shown == {*curves(ROOT)}
    for data, points in curves(ROOT).items():
        file = ROOT / "results" / "pays" / f"{data}.svg"
        assert file.read_text(encoding="utf-8") == drawn(data, points)


def test_the_figure_of_accuracy_against_time_is_what_was_measured() -> None:
    assert FIGURE.read_text(encoding="utf-8") == of_teaching(stored_rows())
    assert f"](../{FIGURE.relative_to(ROOT)})" in page("performance").read_text("utf-8")


def test_the_figure_of_how_costs_grow_is_what_was_measured() -> None:
    shown = page("performance").read_text(encoding="utf-8")
    assert f"(../{growth.FIGURE.relative_to(ROOT)})" in shown
    assert growth.FIGURE.read_text(encoding="utf-8") == growth.figure()


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((1, 1.01, 0.99, 1.1), "none"),
        ((1, 1.1, 1.3, 1.6), "less than in proportion"),
        ((1, 1.2, 2.3, 4.7), "in proportion from 2 on"),
        ((1, 2.1, 4.1, 8.0), "in proportion"),
        ((1, 2.1, 4.5, 9.6), "more than in proportion from 1 on"),
        ((1, 1.5, 3.6, 9.0), "more than in proportion from 2 on"),
    ],
)
def test_growth_follows_from_neighbouring_points(times, said) -> None:
    points = [{"place": 2**n, "time": time} for n, time in enumerate(times)]
    assert growth.growth(points) == said


def test_the_page_on_hypergradients_says_what_was_measured() -> None:
    rows = ROW.findall(HYPERGRADIENTS.read_text(encoding="utf-8"))
    assert len(rows) > 50
    there = {
        (
            row["case"],
            row["variant"],
            *(f"{v:.2f}" for v in (row["time"], *row["quartiles"])),
            f"{row['n']}",
        )
        for row in stored("hypergradients")["results"]
    }
    assert [row for row in rows if row not in there] == []

"""Tables of the page on inspection, drawn up from ``results/inspection/label-errors.json``."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.label_errors import BOTH, CELLS, CORRECTED, DISTILLED, METHODS, UNTAUGHT
from tests.docs.measured import ROOT, content

FILE = ROOT / "results" / "inspection" / "label-errors.json"
OURS = "tutelage"
SHORT = {
    "self_confidence": "confidence",
    "normalized_margin": "margin",
    "confidence_weighted_entropy": "entropy",
}
NAMED = {UNTAUGHT: "plain", BOTH: "plain and corrected"}
"""students of folds, where the page has another name than the stored figures"""
Row = Mapping[str, Any]


def seeds_of(cell: str, kind: str) -> list[Row]:
    rows = content(FILE)["results"]
    return [row for row in rows if row["cell"] == cell and row["predictions"] == kind]


def _values(rows: Sequence[Row], ranking: str, figure: str) -> list[float]:
    return [row["rankings"][ranking][figure] for row in rows]


def beside(rows: Sequence[Row], figure: str) -> tuple[list[float], str, list[float]]:
    """Ours, the best of cleanlab's rankings by their mean over seeds, and its values."""
    best = max(METHODS, key=lambda name: statistics.fmean(_values(rows, name, figure)))
    return _values(rows, OURS, figure), best, _values(rows, best, figure)


def _higher(rows: Sequence[Row], figure: str) -> bool:
    ours, _, theirs = beside(rows, figure)
    return statistics.fmean(ours) > statistics.fmean(theirs)


def _spread(values: Sequence[float], scale: float, form: str) -> str:
    found = [scale * value for value in values]
    return f"{statistics.fmean(found):{form}} ± {statistics.stdev(found):{form}}"


def _figure(rows: Sequence[Row], figure: str, scale: float, form: str) -> str:
    ours, best, theirs = beside(rows, figure)
    told = f"{_spread(theirs, scale, form)} ({SHORT[best]})"
    mine = _spread(ours, scale, form)
    return f"{f'**{mine}**' if _higher(rows, figure) else mine} | {told}"


def rankings(kind: str) -> str:
    lines = [
        "| cell | labels, wrong | AUROC here | AUROC cleanlab | precision here, % | precision "
        "cleanlab, % | at recall, % | n |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in CELLS:
        rows = seeds_of(cell, kind)
        wrong = statistics.fmean(row["wrong"] for row in rows)
        cells = (
            cell,
            f"{rows[0]['n']:,}, {wrong:,.0f}",
            _figure(rows, "auroc", 1.0, ".3f"),
            _figure(rows, "precision", 100.0, ".1f"),
            f"{100 * statistics.fmean(row['recall'] for row in rows):.0f}",
            f"{len(rows)}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    each = [
        [_higher(seeds_of(cell, kind), figure) for figure in ("auroc", "precision")]
        for cell in CELLS
    ]
    by_auroc, by_precision = (sum(column) for column in zip(*each, strict=True))
    lines += [
        "",
        f"Above cleanlab's best ranking, of {len(CELLS)} cells: AUROC in {by_auroc}, "
        f"precision in {by_precision}, both in {sum(map(all, each))}.",
    ]
    return "\n".join(lines)


def beside_given() -> str:
    """Distilled students here, and cleanlab on students of given labels."""
    lines = [
        "| cell | AUROC here | AUROC cleanlab | precision here, % | precision cleanlab, % | at "
        "recall, % |",
        "|---|---|---|---|---|---|",
    ]
    for cell in CELLS:
        ours, given = seeds_of(cell, DISTILLED), seeds_of(cell, UNTAUGHT)
        at = [row["at_recall_of_given"] for row in ours]
        columns = (
            (_values(ours, OURS, "auroc"), beside(given, "auroc")[2], 1, ".3f"),
            ([one["precision"] for one in at], beside(given, "precision")[2], 100, ".1f"),
        )
        means = [
            f"{unit * statistics.fmean(values):{digits}}"
            for here, there, unit, digits in columns
            for values in (here, there)
        ]
        recall = f"{100 * statistics.fmean(one['recall'] for one in at):.0f}"
        lines.append(f"| {cell} | {' | '.join([*means, recall])} |")
    return "\n".join(lines)


def intervals() -> str:
    lines = [
        "| number of wrong labels | predictions | within the 90% interval | mean width, % of "
        "these labels |",
        "|---|---|---|---|",
    ]
    for what, count, interval, of in (
        ("among all labels", "wrong", "all_between", "n"),
        ("among those likely wrong", "suspects_wrong", "suspects_between", "suspects"),
    ):
        for kind in (DISTILLED, BOTH, CORRECTED, UNTAUGHT):
            rows = [row for cell in CELLS for row in seeds_of(cell, kind)]
            held = sum(row[interval][0] <= row[count] <= row[interval][1] for row in rows)
            width = statistics.fmean(
                (row[interval][1] - row[interval][0]) / max(1, row[of]) for row in rows
            )
            by = NAMED.get(kind, kind)
            lines.append(f"| {what} | {by} | {held} of {len(rows)} | {100 * width:.0f} |")
    return "\n".join(lines)


TABLES: Mapping[str, Callable[[], str]] = {
    "distilled": lambda: rankings(DISTILLED),
    "both": lambda: rankings(BOTH),
    "corrected": lambda: rankings(CORRECTED),
    "given": lambda: rankings(UNTAUGHT),
    "beside-given": beside_given,
    "intervals": intervals,
}

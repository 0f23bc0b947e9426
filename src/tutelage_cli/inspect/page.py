"""The HTML page of an inspection: the most suspect labels and their losses."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tutelage_cli.inspect.args import Inspect
from tutelage_cli.inspect.combined import Labels
from tutelage_cli.inspect.findings import Inspection
from tutelage_cli.inspect.terminal_output import cells, columns, headline, sentences
from tutelage_cli.report import elements, plots, styles
from tutelage_cli.report.page import document

LISTED = 500
"""rows of a table on the page; the CSV files have them all"""


class Page(NamedTuple):
    """A page."""

    html: str
    notes: tuple[str, ...]
    """why there are no pictures, where there are none"""


def page(inspection: Inspection, args: Inspect) -> Page:
    """Draw the page."""
    labels, pictures, notes = inspection.labels, "", ()
    first = range(min(args.top, len(labels)))
    if inspection.run is not None:
        # with PyTorch, which tables of losses do without
        from tutelage_cli.inspect.pictures import gallery

        pictures, notes = gallery(labels, first, inspection.run.settings, args.data)
    parts = {
        "distrusted": (
            "Most suspect",
            _most_distrusted(headline(inspection), labels, first, pictures),
        ),
        "past": ("Over the run", _past(labels)),
        "suspects": ("Likely wrong", _flagged_table(inspection)),
    }
    what = inspection.arm or inspection.students[0].partition(", seed")[0]
    where = str(inspection.run.folder) if inspection.run is not None else str(args.run)
    paragraphs = list(sentences(inspection)) + list(notes)
    title = f"Suspect labels: {what}"
    return Page(document(title, f"Run: {where}", paragraphs, parts), notes)


def _most_distrusted(title: str, labels: Labels, rows: range, pictures: str) -> str:
    if not pictures:
        listed = [cells(labels, row) for row in rows]
        pictures = elements.table(title, columns(labels), listed, style="examples")
    return elements.section(title, pictures, anchor="distrusted")


def _past(labels: Labels) -> str:
    if labels.past_losses is None or len(labels.epochs) < 2:
        return ""
    drawn = []
    across = [float(epoch) for epoch in labels.epochs]
    for name, values in (("loss", labels.past_losses), ("weight", labels.past_weights)):
        tracks = dict(_tracks(labels, values))
        if values is None or not tracks or np.ptp(values) == 0:
            continue
        caption = f"Mean {name} as the steps met the examples"
        chart = plots.lines(
            across, tracks, ("epoch", name), mark=f"past-{name}", title=f"{caption}."
        )
        drawn.append(elements.chart(caption, chart))
    named = [name for name, _ in _tracks(labels, labels.past_losses)]
    body = f'{styles.arm_legend(named)}<div class="charts">{"".join(drawn)}</div>'
    return elements.section("Over the run", body, anchor="past")


def _tracks(labels: Labels, values: np.ndarray | None) -> Iterator[tuple[str, list[float]]]:
    if values is None:
        return
    groups = {"all": np.ones(len(labels), dtype=bool)}
    if labels.flagged is not None:
        groups = {"likely wrong": labels.flagged, "the others": ~labels.flagged}
    for name, members in groups.items():
        if members.any():
            yield name, values[members].mean(0).tolist()


def _flagged_table(inspection: Inspection) -> str:
    labels, wrong = inspection.labels, inspection.labels.first_flagged(LISTED)
    if not wrong:
        return ""
    rows = [cells(labels, row) for row in wrong]
    more = f", the first {LISTED:,}" if inspection.flagged > LISTED else ""
    title = f"The {inspection.flagged:,} labels that are likely wrong{more}"
    table = elements.table(title, columns(labels), rows, style="examples")
    body = f"<details><summary>{title}</summary>{table}</details>"
    return elements.section("Likely wrong", body, anchor="suspects")

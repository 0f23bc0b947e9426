"""The HTML page of an inspection: the most suspect labels and their losses."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.by_name import fingerprints
from tutelage_cli.data.images import ImageSet
from tutelage_cli.inspect.args import Inspect
from tutelage_cli.inspect.combined import Labels
from tutelage_cli.inspect.findings import Inspection
from tutelage_cli.inspect.image_files import files_of_images
from tutelage_cli.inspect.terminal_output import cells, columns, headline, sentences
from tutelage_cli.report import elements, formats, plots, styles
from tutelage_cli.report.page import document
from tutelage_cli.report.pictures import pictured
from tutelage_cli.train.material import read_source
from tutelage_cli.train.students import raw_examples

LISTED = 500
"""rows of a table on the page; the CSV files have them all"""


class Page(NamedTuple):
    """A page."""

    html: str
    notes: tuple[str, ...]
    """why there are no pictures, where there are none"""


def page(inspection: Inspection, args: Inspect) -> Page:
    """Draw the page."""
    images, files, notes = _images(inspection, args)
    labels = inspection.labels
    first = range(min(args.top, len(labels)))
    parts = {
        "distrusted": (
            "Most suspect",
            _most_distrusted(headline(inspection), labels, first, images, files),
        ),
        "past": ("Over the run", _past(labels)),
        "suspects": ("Likely wrong", _flagged_table(inspection)),
    }
    what = inspection.arm or inspection.students[0].partition(", seed")[0]
    where = str(inspection.run.folder) if inspection.run is not None else str(args.run)
    paragraphs = list(sentences(inspection)) + list(notes)
    title = f"Suspect labels: {what}"
    return Page(document(title, f"Run: {where}", paragraphs, parts), notes)


def _images(
    inspection: Inspection, args: Inspect
) -> tuple[ImageSet | None, Sequence[Path], tuple[str, ...]]:
    # with the file of each by id, where they are in files of their own
    if inspection.run is None:
        return None, (), ()
    settings = inspection.run.settings
    if args.data is not None:
        settings = replace(settings, data=args.data)
    try:
        train = raw_examples(read_source(settings).splits.train)
        if not isinstance(train, ImageSet):
            return None, (), ()
        return train, next(iter(files_of_images(settings)), ()), ()
    except UsageError as error:
        return None, (), (f"No pictures: {error} Name where they are now with --data.",)


def _most_distrusted(
    title: str, labels: Labels, rows: range, images: ImageSet | None, files: Sequence[Path]
) -> str:
    pictures = _gallery(labels, list(rows), images, files) if images is not None else ""
    if pictures:
        known = labels.true is not None
        notes = ["A dashed upper edge marks a wrong label."] if known else []
        notes += ["A picture opens its file."] if files else []
        body = pictures + elements.paragraph(" ".join(notes), style="note")
    else:
        listed = [cells(labels, row) for row in rows]
        body = elements.table(title, columns(labels), listed, style="examples")
    return elements.section(title, body, anchor="distrusted")


def _gallery(labels: Labels, rows: list[int], images: ImageSet, files: Sequence[Path]) -> str:
    place = {name: n for n, name in enumerate(images.names())}
    figures = []
    for row in rows:
        at = place.get(labels.names[row])
        if at is None:
            continue
        one = images.rows(torch.tensor([at]))
        if labels.contents is not None and fingerprints(one)[0] != labels.contents[row]:
            continue  # another picture has taken its name
        address = files[int(one.ids[0])].as_uri() if files else ""
        figures.append(_figure(labels, row, one, address))
    return f'<div class="gallery">{"".join(figures)}</div>' if figures else ""


def _figure(labels: Labels, row: int, one: ImageSet, address: str) -> str:
    pixels = one.images[0].permute(1, 2, 0).numpy()
    image = pixels[..., 0] if pixels.shape[2] != 3 else pixels
    facts = {"name": labels.names[row]}
    facts |= {"given": labels.given[row], "predicted": labels.predicted[row]}
    kind = "unknown"
    if labels.true is not None:
        facts["true"] = labels.true[row]
        kind = "right" if labels.true[row] == labels.given[row] else "wrong"
    if labels.wrong is not None:
        facts["P(wrong)"] = formats.number(float(labels.wrong[row].mean()))
    else:
        facts["weight"] = formats.number(float(labels.weights[row]))
    facts["loss"] = formats.number(float(labels.losses[row]))
    alt = f"Training example {labels.names[row]}, labelled {labels.given[row]}"
    return pictured(image, alt, facts, kind=kind, address=address)


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
    key = styles.legend(list(styles.arm_styles(named).items()))
    body = f'{key}<div class="charts">{"".join(drawn)}</div>'
    return elements.section("Over the run", body, anchor="past")


def _tracks(labels: Labels, values: np.ndarray | None) -> Iterator[tuple[str, list[float]]]:
    if values is None:
        return
    groups = {"all": np.ones(len(labels), dtype=bool)}
    if labels.flagged is not None:
        groups = {"likely wrong": labels.flagged, "the others": ~labels.flagged}
    for name, of in groups.items():
        if of.any():
            yield name, values[of].mean(0).tolist()


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

"""The most suspect images of a run, as pictures for the page."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from tutelage.errors import UsageError
from tutelage_cli.data.by_name import fingerprints
from tutelage_cli.data.images import ImageSet
from tutelage_cli.inspect.combined import Labels
from tutelage_cli.inspect.image_files import files_of_images
from tutelage_cli.report import elements, formats
from tutelage_cli.report.pictures import pictured
from tutelage_cli.train.material import read_source
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import raw_examples


class Gallery(NamedTuple):
    """Pictures as HTML."""

    html: str
    """empty where there are none"""
    notes: tuple[str, ...]
    """why there are none"""


def gallery(
    labels: Labels, rows: Sequence[int], settings: TrainSettings, data: str | None
) -> Gallery:
    """The images of some labels that are still there and have not changed."""
    if data is not None:
        settings = replace(settings, data=data)
    try:
        train = raw_examples(read_source(settings).splits.train)
        if not isinstance(train, ImageSet):
            return Gallery("", ())
        files = next(iter(files_of_images(settings)), ())
    except UsageError as error:
        return Gallery("", (f"No pictures: {error} Name where they are now with --data.",))
    return Gallery(_gallery(labels, rows, train, files), ())


def _gallery(
    labels: Labels, rows: Sequence[int], images: ImageSet, files: Sequence[Path]
) -> str:
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
    if not figures:
        return ""
    notes = ["A dashed upper edge marks a wrong label."] if labels.true is not None else []
    notes += ["A picture opens its file."] if files else []
    below = elements.paragraph(" ".join(notes), style="note")
    return f'<div class="gallery">{"".join(figures)}</div>{below}'


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

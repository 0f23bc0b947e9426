"""Page sections of teachers that take images: curricula and masks."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tutelage.teachers import AttentionMask, Curriculum
from tutelage.types import Batch, Observation, Progress, as_prepared
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.images import ImageSet
from tutelage_cli.report import elements, formats, plots, styles
from tutelage_cli.report.pictures import pictured

MAX_IMAGES = 12
"""images of each kind"""
PROGRESS_POINTS = np.linspace(0, 1, 11)
"""values of training progress at which weights are drawn"""


class SectionInputs(NamedTuple):
    """A teacher with the images to draw it on."""

    teacher: nn.Module
    classes: tuple[str, ...]
    """names; none where unknown"""
    batches: Batches[ImageSet] | None
    """images to show it on, all in one batch"""


def curriculum(section: SectionInputs) -> tuple[str, str]:
    """Weights over the progress of training, and the images of highest and lowest weight."""
    title = "Which examples count, and when"
    if section.batches is None:
        return title, _needs_data()
    batch = next(section.batches.whole(len(section.batches.examples)))
    weights = torch.stack([
        _weights(section.teacher, batch, place) for place in PROGRESS_POINTS
    ]).numpy()
    names: tuple[str, ...] = ("lowest tenth below", "median", "highest tenth above")
    tracks: dict[str, list[float]] = dict(
        zip(names, np.quantile(weights, (0.1, 0.5, 0.9), axis=1).tolist(), strict=True)
    )
    # one panel for all images, one for those whose weight moves most
    moved = np.argsort(-np.abs(weights[-1] - weights[0]), kind="stable")[:6]
    some = {_image_name(section, batch, row): weights[:, row].tolist() for row in moved}
    drawings = [
        _over_progress(tracks, "all", "Weights of all images shown"),
        _over_progress(some, "some", "Weights that change most"),
    ]
    order = np.argsort(weights[-1], kind="stable")
    html = f'<div class="charts">{"".join(drawings)}</div>'
    for caption, rows in (
        ("Highest", order[::-1][:MAX_IMAGES]),
        ("Lowest", order[:MAX_IMAGES]),
    ):
        figures = "".join(_weighed(section, batch, row, weights[:, row]) for row in rows)
        html += f"<h3>{caption} weights at the end of training</h3>"
        html += f'<div class="gallery">{figures}</div>'
    return title, html


def _over_progress(tracks: dict[str, list[float]], mark: str, caption: str) -> str:
    drawing = plots.lines(
        PROGRESS_POINTS.tolist(),
        tracks,
        ("progress of training", "weight"),
        mark=mark,
        title=f"{caption}, over the progress of training.",
    )
    return f"<div>{elements.chart(caption, drawing)}{styles.arm_legend(list(tracks))}</div>"


def _weights(teacher: nn.Module, batch: Batch, place: float) -> Tensor:
    assert isinstance(teacher, Curriculum)
    empty = torch.zeros(len(batch.inputs))
    progress = Progress(float(place), 0.0, 0.0)
    return teacher.weigh(as_prepared(batch), Observation(empty, empty[:, None], {}, progress))


def _image_name(section: SectionInputs, batch: Batch, row: int) -> str:
    return f"{section.classes[int(batch.targets[row])]}, image {int(batch.ids[row])}"


def _weighed(section: SectionInputs, batch: Batch, row: int, weights: np.ndarray) -> str:
    facts = {
        "label": section.classes[int(batch.targets[row])],
        "at first": formats.number(float(weights[0])),
        "at the end": formats.number(float(weights[-1])),
    }
    return pictured(
        _bytes(section, row), _image_name(section, batch, row), facts, kind="unknown"
    )


def _bytes(section: SectionInputs, row: int) -> np.ndarray:
    assert section.batches is not None
    pixels = section.batches.examples.images[row].permute(1, 2, 0).numpy()
    return pixels[..., 0] if pixels.shape[2] == 1 else pixels


def masks(section: SectionInputs) -> tuple[str, str]:
    """Images beside their masked copies."""
    title = "Masks"
    teacher = section.teacher
    assert isinstance(teacher, AttentionMask)
    if section.batches is None:
        return title, _needs_data()
    batch = next(section.batches.whole(len(section.batches.examples)))
    centres = teacher.centres(batch.inputs)
    masks = teacher.mask(batch.inputs)
    rows = torch.linspace(0, len(centres) - 1, 2 * MAX_IMAGES).long().tolist()
    figures = "".join(
        pictured(
            _beside(_bytes(section, row), masks[row, 0].numpy(), centres[row]),
            f"{_image_name(section, batch, row)}, with its mask",
            {
                "label": section.classes[int(batch.targets[row])],
                "centre": "{:.1f}, {:.1f}".format(*centres[row].tolist()),
            },
            kind="unknown",
        )
        for row in rows
    )
    mean, spread = centres.mean(0).tolist(), centres.std(0).tolist()
    note = (
        f"Left: the image, its mask's centre red. Right: the masked image. Centres are rows "
        f"and columns from 0 at the top left; over {len(centres)} images their mean is "
        f"({mean[0]:.1f}, {mean[1]:.1f}), their standard deviation ({spread[0]:.1f}, "
        f"{spread[1]:.1f}). The mask has a standard deviation of {teacher.sigma:g} pixels."
    )
    return title, elements.paragraph(
        note, style="note"
    ) + f'<div class="gallery">{figures}</div>'


def _beside(image: np.ndarray, mask: np.ndarray, centre: Tensor) -> np.ndarray:
    colour = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
    masked = (colour * np.clip(mask, 0, 1)[..., None]).astype(np.uint8)
    marked = colour.copy()
    row, column = (round(float(place)) for place in centre)
    marked[row, max(0, column - 1) : column + 2] = marked[max(0, row - 1) : row + 2, column] = (
        255,
        0,
        0,
    )
    return np.concatenate([marked, masked], axis=1)


def _needs_data() -> str:
    return elements.paragraph("Give --data to draw it on images.", style="note")

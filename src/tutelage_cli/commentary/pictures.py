"""Page sections with charts of a learned teacher, by its type."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from tutelage.teacher import normalise_of
from tutelage.teachers import (
    AttentionMask,
    Blending,
    CombinedTeacher,
    Curriculum,
    DynamicLoss,
    InternalState,
    KeepOrDrop,
    LearnedAugmentation,
    LossWeigher,
    PermutationControl,
    RandomBlending,
    Shuffled,
)
from tutelage.teachers.internal_state import SURFACE_FEATURES
from tutelage_cli.commentary.image_sections import SectionInputs, curriculum, masks
from tutelage_cli.report import elements, formats, plots
from tutelage_cli.report.augmentation import drawn
from tutelage_cli.report.grid import Grid, grid
from tutelage_cli.train.policies import policy_record

CAPTION = "Weight by margin and loss"
AXES = {"margin": torch.linspace(-1, 1, 9), "loss": torch.linspace(0, 8, 9)}
"""values of each axis: margins are differences of probabilities, losses are in nats"""
Parts = dict[str, tuple[str, str]]
"""name and HTML of each section, by its anchor"""
MOST_CLASSES = 30
"""classes up to which all pairs are drawn"""
PAIRS = 15
"""pairs of classes to name, most and least blended"""
LOSSES = torch.linspace(0, 10, 101)
"""nats"""


def margin_loss_chart(teacher: InternalState) -> str:
    """A chart of the weight over both."""
    if teacher.taps or teacher.label or set(teacher.surface) != set(AXES):
        return ""
    down, across = AXES["loss"].flip(0), AXES["margin"]
    facts = {"loss": down.repeat_interleave(len(across)), "margin": across.repeat(len(down))}
    z = teacher.net(torch.stack([facts[fact] for fact in teacher.surface], 1))
    weights = z.sigmoid().reshape(len(down), len(across)).double().numpy()
    cells = Grid(
        [f"{loss:g}" for loss in down.tolist()],
        [f"{margin:g}" for margin in across.tolist()],
        weights,
        ("loss, nats", "margin", "weight"),
    )
    best = np.unravel_index(weights.argmax(), weights.shape)
    title = (
        f"{CAPTION}, from {weights.min():.3f} to {weights.max():.3f}. Most at a margin of "
        f"{cells.columns[best[1]]} and a loss of {cells.rows[best[0]]}."
    )
    centred = "the mean of a batch is taken off the logits, and " * (teacher.level == "centred")
    note = (
        f"Margin: how far the given label leads in probability. Before these weights count, "
        f"{centred}they are divided by their mean over the batch. Not every pair is possible: "
        "a label that leads has a low loss."
    )
    chart = elements.chart(
        "Weight by margin and loss", grid(cells, mark="surface", title=title)
    )
    return chart + elements.paragraph(note, style="note")


@torch.no_grad()
def draw_sections(section: SectionInputs) -> Parts:
    """The sections of a teacher, or of its parts."""
    sections: Parts = {}
    for title, html in _sections(section, ""):
        anchor = f"learned-{len(sections) + 1}" if sections else "learned"
        sections[anchor] = (title, elements.section(title, html, anchor=anchor))
    return sections


def _sections(section: SectionInputs, note: str) -> Iterator[tuple[str, str]]:
    note_html = elements.paragraph(note, style="note")
    for kind, parts in PARTS_OF.items():
        if isinstance(section.teacher, kind):
            for name, part_note in parts.items():
                part = section._replace(teacher=section.teacher.get_submodule(name))
                yield from _sections(part, part_note)
            return
    for kind, draw in DRAWINGS.items():
        if isinstance(section.teacher, kind):
            title, html = draw(section)
            yield title, note_html + html
            return
    nothing = f"There is no chart of the teacher {type(section.teacher).__name__}."
    yield type(section.teacher).__name__, note_html + elements.paragraph(nothing, style="note")


def _augmentation(section: SectionInputs) -> tuple[str, str]:
    assert isinstance(section.teacher, LearnedAugmentation)
    html = drawn(policy_record("", [section.teacher]), mark="policy")
    return "Which augmentations were kept", html


def _blending(section: SectionInputs) -> tuple[str, str]:
    assert isinstance(section.teacher, Blending | RandomBlending | Shuffled)
    mixed = 1 - section.teacher.shares.numpy().astype(np.float64)
    names = section.classes or tuple(map(str, range(len(mixed))))
    html = ""
    if len(names) <= MOST_CLASSES:
        caption = "Share of the second image"
        labels = ("class", "blended with", "share of the second image")
        chart = grid(
            Grid(names, names, mixed, labels),
            mark="blending",
            title=f"{caption}, by class and the class blended with.",
        )
        html += elements.chart(caption, chart)
    order = np.argsort(mixed, axis=None)
    apart = [(i, j) for i, j in zip(*np.unravel_index(order, mixed.shape), strict=True)]
    ends = {"blended most": apart[::-1][:PAIRS], "blended least": apart[:PAIRS]}
    tables = "".join(
        elements.table(
            f"Pairs {caption}",
            ("class", "with", "share"),
            [(names[i], names[j], formats.number(float(mixed[i, j]))) for i, j in pairs],
            style="examples",
        )
        for caption, pairs in ends.items()
    )
    others = (mixed.sum(1) - mixed.diagonal()) / max(len(names) - 1, 1)
    means = {names[i]: formats.number(others[i]) for i in np.argsort(-others)}
    html += f'<div class="columns">{tables}'
    html += f"{elements.pairs('Mean share of other classes', means)}</div>"
    return "How much of another image each class is shown", html


def _loss(section: SectionInputs) -> tuple[str, str]:
    weights = section.teacher.get_submodule("net")(LOSSES.unsqueeze(1)).sigmoid().squeeze(1)
    drawing = plots.lines(
        LOSSES.tolist(),
        {"weight": weights.tolist()},
        ("loss, nats", "weight"),
        mark="loss",
        title=f"Weight over loss, from {float(weights[0]):.3f} at 0 to "
        f"{float(weights[-1]):.3f} at {float(LOSSES[-1]):g}.",
    )
    rescaled = normalise_of(section.teacher) == "mean"
    note = "Weights are divided by their mean over the batch before they count." * rescaled
    html = elements.chart("Weight over loss", drawing) + elements.paragraph(note, style="note")
    return "How much an example counts, by its loss", html


def _dynamic_loss(section: SectionInputs) -> tuple[str, str]:
    teacher = section.teacher
    assert isinstance(teacher, DynamicLoss)
    count = teacher.classes
    names = section.classes or tuple(map(str, range(count)))
    moments = {  # share of the run, mean loss, best and present accuracy
        "at the start, of a student that guesses": (0.0, math.log(count), 1 / count, 1 / count),
        "at the end, of a student without errors": (1.0, 0.0, 1.0, 1.0),
    }
    html = ""
    for place, (moment, state) in enumerate(moments.items()):
        w, b = teacher.coefficients(torch.tensor(state))
        if count <= MOST_CLASSES:
            values = w.T.numpy().astype(np.float64)
            caption = f"W {moment}"
            cells = Grid(names, names, values, ("label", "log p of", "W"))
            title = f"{caption}: by row the label, by column log p."
            html += elements.chart(caption, grid(cells, mark=f"w-{place}", title=title))
        bias = {names[i]: formats.number(float(b[i])) for i in range(count)}
        html += elements.pairs(f"b {moment}", bias)
    note = "The loss of an example with label y is -sigma(sum_c W[c, y] log p_c + b_y)."
    return "The loss that was learned", html + elements.paragraph(note, style="note")


def _internal_state(section: SectionInputs) -> tuple[str, str]:
    teacher = section.teacher
    assert isinstance(teacher, InternalState)
    first = next(layer for layer in teacher.net if isinstance(layer, nn.Linear))
    assert isinstance(first.weight, Tensor)
    linear = teacher.hidden_layers == 0
    rows = []
    for name, start, end in _columns(teacher, section.classes):
        block = first.weight[:, start:end]
        one = linear and end - start == 1
        size = float(block) if one else float(block.norm())
        rows.append((
            name,
            str(end - start),
            "coefficient" if one else "norm",
            formats.number(size),
        ))
    note = (
        "Coefficient: what one unit more adds to the weight's logit. "
        if linear
        else "The teacher has hidden layers: a feature's effect depends on the others. "
    ) + "Norm: Euclidean norm of the first layer's coefficients of all its features."
    header = ("input", "features", "measure", "value")
    table = elements.table("Inputs of the weight", header, rows, style="examples")
    html = margin_loss_chart(teacher) + table + elements.paragraph(note, style="note")
    return "Inputs of the weight", html


def _columns(teacher: InternalState, names: tuple[str, ...]) -> list[tuple[str, int, int]]:
    classes = names or tuple(map(str, range(teacher.classes)))
    widths = [(f"student's {tap}", teacher.tap_width) for tap in teacher.taps]
    widths += [(f"label {name}", 1) for name in classes if teacher.label]
    widths += [(f, teacher.classes if f == "prediction" else 1) for f in teacher.surface]
    assert all(fact in SURFACE_FEATURES for fact in teacher.surface)
    ends = np.cumsum([0, *(width for _, width in widths)]).tolist()
    spans = pairwise(ends)
    return [(name, *span) for (name, _), span in zip(widths, spans, strict=True)]


DRAWINGS: dict[type[nn.Module], Callable[[SectionInputs], tuple[str, str]]] = {
    Blending: _blending,
    DynamicLoss: _dynamic_loss,
    RandomBlending: _blending,
    Shuffled: _blending,
    LearnedAugmentation: _augmentation,
    LossWeigher: _loss,
    Curriculum: curriculum,
    AttentionMask: masks,
    InternalState: _internal_state,
}
"""the function that draws a teacher, by its type"""
PARTS_OF: dict[type[nn.Module], dict[str, str]] = {
    KeepOrDrop: {"keeps": "Weights are chances here: of an example to be kept."},
    PermutationControl: {
        "learned": "What is shown here goes to other images: each gets the mask or weight of a "
        "random one of its batch."
    },
    CombinedTeacher: {
        "prepares": "One of two teachers: it decides what is seen.",
        "weighs": "One of two teachers: it decides how much that counts.",
    },
}
"""the parts of composed teachers, and a note above each"""

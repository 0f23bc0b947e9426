"""The weight by margin and loss, of a teacher that takes these alone."""

import numpy as np
import torch

from tutelage.teachers import InternalState
from tutelage_cli.report import elements
from tutelage_cli.report.grid import Grid, grid

CAPTION = "Weight by margin and loss"
AXES = {"margin": torch.linspace(-1, 1, 9), "loss": torch.linspace(0, 8, 9)}
"""values of each axis: margins are differences of probabilities, losses are in nats"""


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

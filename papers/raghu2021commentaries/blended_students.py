"""Students taught with images blended by class, and what of it the paper's table prints."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from papers.framework.drawings import grid
from papers.framework.recipe import Outcome
from papers.new_students import cropped_and_mirrored, sgd, tested, trained
from papers.raghu2021commentaries.blending_grids import (
    Settings,
    fractions,
    learned,
    parts,
    student,
    teacher,
)
from tutelage.randomness import mixed_seed
from tutelage.training.tutor import Tutor
from tutelage_cli.claims import Comparison

METRICS = {
    "test_accuracy": "at the end, %",
    "test_loss": "at the end, nats",
    "fraction": "how much of the partner is blended in, mean over pairs of classes",
}
ROWS = {
    "none": "No commentary",
    "random": "Random commentary",
    "mixup": "mixup",
    "shuffled": "Learned commentary (shuffled)",
    "learned": "Learned commentary (original)",
}
"""of the paper's table"""


def blended(
    arm: str, seed: int, settings: Settings, device: torch.device
) -> tuple[Outcome, Float[Tensor, "C C"]]:
    """Train one new student on blended images; learned blending is learned first."""
    data, by = parts(settings, seed, device), teacher(arm, settings, seed, device)
    train = replace(data.train, seed=mixed_seed(seed, 6))
    if settings.cropped:
        train = replace(train, augment=cropped_and_mirrored)
    found = fractions(by, len(data.classes))
    new = student(settings, len(data.classes), mixed_seed(seed, 7)).to(device)
    tutor = Tutor(new, sgd(new, settings.lr), by, seed=mixed_seed(seed, 8))
    drops = [max(1, int(settings.epochs * share)) for share in (0.3, 0.6, 0.8)]
    series = {"training loss": trained(tutor, train, settings.epochs, drops)}
    if arm == "learned":
        series |= learned(settings, seed, device).told
    metrics = tested(tutor, data.test) | {"fraction": float(found.mean())}
    seen = grid(
        data.classes, found, label="fraction of the partner", rows="class", columns="partner"
    )
    return Outcome(metrics, series, {"grid": seen}), found


def lower_loss(than: str) -> Comparison:
    """Students under the learned grid have a lower test loss than others."""
    return Comparison(("learned", "test_loss"), "below", (than, "test_loss"))


def cells(data: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Where the paper's Table C.1 prints what was measured."""
    columns = {"test_accuracy": f"{data} Test Accuracy", "test_loss": f"{data} Test Loss"}
    return {(arm, m): (row, name) for arm, row in ROWS.items() for m, name in columns.items()}

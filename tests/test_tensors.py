"""Lists and NumPy arrays in place of tensors are refused by name, as users would give them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tutelage as tl
from tests.trained import unchecked
from tutelage import augment, crossfit, per_example, teachers
from tutelage.data import as_batch, without_ids
from tutelage.errors import UsageError
from tutelage.teachers import StoredCopies
from tutelage.teachers.worst_case_soft import LabelPreservingTarget
from tutelage.types import Batch

torch.manual_seed(0)
STUDENT = nn.Linear(2, 2)
OWN = {k: p.detach() for k, p in STUDENT.named_parameters()}
IDS, LABELS = torch.arange(4), torch.tensor([0, 1, 0, 1])
P, IMAGES = torch.full((4, 2), 0.5), torch.zeros(4, 1, 8, 8)


def row_losses(params: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.cross_entropy(
        nn.functional.linear(P, **params), LABELS, reduction="none"
    )


def read_off(weight: torch.Tensor, coefficients: torch.Tensor) -> torch.Tensor:
    with per_example.Recorder(STUDENT).record(4) as recording:
        nn.functional.cross_entropy(STUDENT(P), LABELS, reduction="sum").backward()
    return recording.dots({"weight": weight}, coefficients)


TAKES: dict[str, tuple[Callable, tuple]] = {
    "GivenWeights": (teachers.GivenWeights, (IDS, torch.ones(4))),
    "MetaSoftLabelCorrector": (teachers.MetaSoftLabelCorrector, (IDS, P)),
    "OutOfFoldTargets": (teachers.OutOfFoldTargets, (IDS, P, LABELS)),
    "transitions": (
        lambda t: teachers.OutOfFoldTargets(IDS, P, LABELS, transitions=t),
        (torch.eye(2),),
    ),
    "StoredCopies": (StoredCopies, (torch.zeros(4, 2, 3), IDS, torch.zeros(4, 2))),
    "LabelPreservingTarget": (LabelPreservingTarget, (P, IDS)),
    "predicted": (lambda x: teachers.predicted(nn.Linear(2, 2), x), (P,)),
    "label_issues": (crossfit.label_issues, (P, LABELS)),
    "sharpened": (crossfit.sharpened, (P,)),
    "random_crop": (lambda x: augment.random_crop(x, seed=0), (IMAGES,)),
    "random_flip": (lambda x: augment.random_flip(x, seed=0), (IMAGES,)),
    "gradient_dots": (
        lambda w: per_example.gradient_dots(STUDENT, Batch(P, LABELS, IDS), {"weight": w}),
        (OWN["weight"],),
    ),
    "forward_dots": (
        lambda p, w: per_example.forward_dots(row_losses, OWN | {"weight": p}, {"weight": w}),
        (OWN["weight"], OWN["weight"]),
    ),
    "central_dots": (
        lambda p, w: per_example.central_dots(row_losses, OWN | {"weight": p}, {"weight": w}),
        (OWN["weight"], OWN["weight"]),
    ),
    "forward_difference_dots": (
        lambda w, here: per_example.forward_difference_dots(
            row_losses, OWN, {"weight": w}, here
        ),
        (OWN["weight"], torch.zeros(4)),
    ),
    "Recording.dots": (read_off, (OWN["weight"], torch.ones(4))),
    "cutout": (lambda x: augment.cutout(x, seed=0, side=2), (IMAGES,)),
}
"""what takes tensors, and some that it does"""


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize("other", ["list", "array"])
def test_every_argument_that_is_no_tensor_is_named(name, other):
    call, values = TAKES[name]
    call(*values)
    with unchecked():
        for place, value in enumerate(values):
            wrong = value.tolist() if other == "list" else value.numpy()
            given = [*values[:place], wrong, *values[place + 1 :]]
            kind = "list" if other == "list" else "ndarray"
            with pytest.raises(UsageError, match=f"tensor, got a {kind}: give what torch"):
                call(*given)


def test_a_loader_of_arrays_is_told_at_the_first_step():
    student = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(student.parameters(), 0.1)
    tutor = tl.Tutor(student, optimizer, teachers.Plain(), total_steps=3)
    with unchecked():
        wrong: list[Any] = [
            (P.tolist(), LABELS, IDS),
            (P, LABELS.numpy(), IDS),
            (P, LABELS, IDS.tolist()),
        ]
        for inputs, targets, ids in wrong:
            with pytest.raises(UsageError, match=r"is a (list|ndarray); allowed: a tensor"):
                tutor.step(as_batch((inputs, targets, ids)))
        arrays: Any = (P.numpy(), np.zeros(4))
        assert without_ids(arrays).ids.tolist() == [-1] * 4

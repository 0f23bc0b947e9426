"""By the implicit function theorem: a small network that masks the student's input.

ResNet-20 with group normalisation, batches of 64; the unit is one plain training step.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.command import size
from benchmarks.hypergradients.measure import Case, Once
from benchmarks.hypergradients.students import group_norm, resnet20
from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy
from tutelage.signals import Implicit, Neumann
from tutelage.training.loops import planned_steps
from tutelage.types import Batch, PreparedBatch, Window, as_prepared

RATE = 0.05
ROWS, PIXELS = size(64, 3), size(32, 8)


class Mask(nn.Module):
    """Multiplies each image by a mask that it makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)
        )

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Mask a batch.

        Args:
            batch: Images.

        Returns:
            The same, masked.
        """
        masked = batch.inputs * torch.sigmoid(self.net(batch.inputs))
        return as_prepared(batch)._replace(inputs=masked)


def parts(dtype: torch.dtype) -> tuple[nn.Module, Mask, Batch, Batch]:
    """Models and data, drawn from fixed seeds.

    Args:
        dtype: Of all numbers.

    Returns:
        Student, teacher, a training and a held-out batch.
    """
    torch.manual_seed(0)
    student, teacher = resnet20(group_norm).to(dtype), Mask().to(dtype)
    train, held_out = (
        Batch(
            torch.randn(ROWS, 3, PIXELS, PIXELS).to(dtype),
            torch.randint(10, (ROWS,)),
            torch.arange(ROWS),
        )
        for _ in range(2)
    )
    return student, teacher, train, held_out


def plain(dtype: torch.dtype) -> Once:
    """A step of SGD on the masked batch; no hypergradient.

    Args:
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    student, teacher, train, _ = parts(dtype)
    optimizer = torch.optim.SGD(student.parameters(), RATE)

    def once() -> None:
        optimizer.zero_grad()
        with torch.no_grad():
            prepared = teacher.prepare(train)
        F.cross_entropy(student(prepared.inputs), prepared.targets).backward()
        optimizer.step()

    return once


def ours(terms: int, dtype: torch.dtype) -> Once:
    """The hypergradient at the student as it is.

    Args:
        terms: Of the Neumann series.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    student, teacher, train, held_out = parts(dtype)
    optimizer = torch.optim.SGD(student.parameters(), RATE)
    problem = BilevelProblem(StudentView(student, optimizer), teacher, cross_entropy)
    window = Window(None, planned_steps(problem.student, [train], 0), problem.student.state())
    signal = Implicit(Neumann(terms, RATE))

    def once() -> Tensor:
        grad = signal(problem, dict(teacher.named_parameters()), window, held_out).grad
        return torch.cat([g.flatten() for g in grad.values()])

    return once


def by_hand(terms: int, dtype: torch.dtype) -> Once:
    """The same in plain torch, written out: what the arithmetic alone costs.

    Args:
        terms: Of the Neumann series.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    student, teacher, train, held_out = parts(dtype)
    theta, phi = list(student.parameters()), list(teacher.parameters())

    def once() -> Tensor:
        judged = F.cross_entropy(student(held_out.inputs), held_out.targets)
        term = total = list(torch.autograd.grad(judged, theta))
        prepared = teacher.prepare(train)
        loss = F.cross_entropy(student(prepared.inputs), prepared.targets)
        slope = torch.autograd.grad(loss, theta, create_graph=True)
        for _ in range(terms):
            image = torch.autograd.grad(slope, theta, term, retain_graph=True)
            term = [t - RATE * h for t, h in zip(term, image, strict=True)]
            total = [a + b for a, b in zip(total, term, strict=True)]
        mixed = torch.autograd.grad(slope, phi, total)
        return torch.cat([-RATE * m.flatten() for m in mixed])

    return once


def implicit_case(terms: int) -> Case:
    """The mask.

    Args:
        terms: Of the Neumann series.

    Returns:
        The case.
    """
    return Case(
        unit="plain SGD step",
        reference=partial(by_hand, terms),
        variants={
            "plain SGD step": plain,
            "plain torch": partial(by_hand, terms),
            f"Implicit, {terms} terms": partial(ours, terms),
        },
    )

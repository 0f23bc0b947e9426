"""Rows that depend on one another, in the student or the objective, are accounted for."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.awkward import OBJECTIVES, STUDENTS, B, Body, C, D, contrastive, plain
from tutelage.errors import UnsupportedStudentError
from tutelage.per_example.coupling import KNOWN
from tutelage.signals import GradientAlignment, Lookahead, Signal, Unrolled
from tutelage.signals.products import Alignment
from tutelage.teachers import KeepOrDrop
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

F64 = torch.float64


class ByExample(nn.Module):
    """One weight for each example."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.linspace(-1, 1, B, dtype=F64))

    def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.phi[prepared.ids].sigmoid()


def batch(seed: int, rows: int = B) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, D, generator=generator, dtype=F64)
    return Batch(x, torch.arange(rows).roll(1) % C, torch.arange(rows))


def student(kind) -> nn.Module:
    torch.manual_seed(0)
    return kind().double()


def taught(module: nn.Module, signal: Signal, objective=plain, steps: int = 3, **settings):
    """The teacher after some steps of its own."""
    module, teacher = copy.deepcopy(module), ByExample()
    optimizer, own = SGD(module.parameters(), lr=0.3), SGD(teacher.parameters(), lr=1.0)
    tutor = Tutor(
        module, optimizer, teacher, own, signal=signal, objective=objective, **settings
    )
    for step in range(steps):
        tutor.step(batch(step), batch(50 + step))
    return teacher.phi.detach() - ByExample().phi.detach()


def off(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("kind", STUDENTS.values(), ids=STUDENTS.keys())
def test_a_student_that_couples_rows_is_taught_exactly(kind) -> None:
    module = student(kind)
    exact = taught(module, Unrolled(1))
    for signal in (Lookahead(), Lookahead(mode="restep"), Lookahead(Alignment("forward"))):
        want = exact if signal.mode == "online" else taught(module, resteps_exactly())
        assert off(taught(module, signal), want) < 1e-8, signal


def resteps_exactly() -> Lookahead:
    return Lookahead(Alignment("forward"), mode="restep")


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_an_objective_that_couples_rows_is_taught_exactly(objective) -> None:
    module = student(Body)
    exact = taught(module, Unrolled(1), objective)
    assert off(taught(module, Lookahead(), objective), exact) < 1e-8
    assert off(taught(module, Lookahead(Alignment("ghost")), objective), exact) < 1e-8


@pytest.mark.parametrize("kind", ["Attends", "Centred", "WholeBatches", "ByChance"])
def test_ghost_that_was_asked_for_by_name_is_exact_too(kind) -> None:
    module = student(STUDENTS[kind])
    exact = taught(module, Unrolled(1))
    assert off(taught(module, Lookahead(Alignment("ghost"))), exact) < 1e-8


def test_the_number_is_that_of_central_differences() -> None:
    module = student(Body)

    def held_out_loss(phi: Tensor) -> float:
        moved = copy.deepcopy(module)
        first, judge = batch(0), batch(50)
        losses, weights = contrastive(moved(first.inputs), first.targets), phi.sigmoid()
        optimizer = SGD(moved.parameters(), lr=0.3)
        ((weights * losses).sum() / weights.sum()).backward()
        optimizer.step()
        return float(contrastive(moved(judge.inputs), judge.targets).mean().detach())

    phi, size = ByExample().phi.detach(), 1e-5
    expected = torch.tensor(
        [
            (held_out_loss(phi + size * d) - held_out_loss(phi - size * d)) / (2 * size)
            for d in torch.eye(B, dtype=F64)
        ],
        dtype=F64,
    )
    assert off(-taught(module, Lookahead(), contrastive, steps=1), expected) < 1e-7


@pytest.mark.parametrize("kind", ["Centred", "InLargeBatches", "Normalised"])
def test_rewards_are_those_of_forward_mode(kind) -> None:
    module = student(STUDENTS[kind])

    def policy(product) -> Tensor:
        torch.manual_seed(1)
        twin, teacher = copy.deepcopy(module), KeepOrDrop(ByExample())
        signal = GradientAlignment() if product is None else GradientAlignment(product)
        tutor = Tutor(
            *(twin, SGD(twin.parameters(), lr=0.3)),
            *(teacher, SGD(teacher.parameters(), lr=1.0)),
            signal=signal,
        )
        for step in range(4):
            tutor.step(batch(step))
        return torch.cat([p.detach().flatten() for p in teacher.parameters()])

    torch.testing.assert_close(policy(None), policy(Alignment("forward")), rtol=1e-9, atol=0)


def test_rows_coupled_within_micro_batches_are_refused() -> None:
    """They would be coupled otherwise than in the whole batch."""
    module = student(STUDENTS["Attends"])
    with pytest.raises(UnsupportedStudentError, match="depends on the other rows"):
        taught(module, Lookahead(), micro_batch=4)


def test_a_batch_that_couples_after_many_that_do_not() -> None:
    module = student(STUDENTS["OnSomeInputs"])

    def after(signal: Signal) -> Tensor:
        twin, teacher = copy.deepcopy(module), ByExample()
        own = SGD(teacher.parameters(), lr=1.0)
        tutor = Tutor(twin, SGD(twin.parameters(), lr=0.3), teacher, own, signal=signal)
        for step in range(8):
            rows = batch(step)
            rows.inputs[0, 0] = 1.0 if step == 6 else -1.0
            tutor.step(rows, batch(50 + step))
        return teacher.phi.detach()

    torch.testing.assert_close(after(Lookahead()), after(Unrolled(1)), rtol=1e-9, atol=0)


def test_independent_rows_are_still_read_off_the_real_pass() -> None:
    module, teacher = student(Body), ByExample()
    tutor = Tutor(
        *(module, SGD(module.parameters(), lr=0.3), teacher, SGD(teacher.parameters(), lr=1.0)),
        signal=Lookahead(),
    )
    for step in range(6):
        tutor.step(batch(step), batch(50 + step))
    assert KNOWN[module].passes == 6
    assert not KNOWN[module].coupled

"""Theorem 1 for every teacher that samples: over all its actions, rewards give the gradient."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD

from tests.signals.sampling import (
    CASES,
    JUDGES,
    MARKED,
    RATE,
    ByLogit,
    C,
    Chosen,
    D,
    Moved,
    Sampling,
    Weighs,
    batch_of,
    chance,
    hold,
    unlabelled,
)
from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.student import StudentView
from tutelage.per_example import forward
from tutelage.signals import GradientAlignment, NextStepLoss, Signal
from tutelage.signals.products import Alignment, Automatic
from tutelage.signals.sampled_step import pseudo_values
from tutelage.teachers import CombinedTeacher, Plain, SelfPaced
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, as_prepared

pytestmark = pytest.mark.filterwarnings("ignore:.*carried no weight at all")
SIZE = 1e-4
"""of central differences"""


def student_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 3), nn.Tanh(), nn.Linear(3, C)).double()


def held_out_loss(student: nn.Module) -> float:
    return cross_entropy(student(JUDGES.inputs), JUDGES.targets).item()


def trained(case: Sampling, teacher: nn.Module, action: tuple[int, ...], **settings) -> float:
    """The held-out loss after one real step."""
    hold(teacher, action)
    student = student_of()
    optimizer = case.optimizer(student)
    kept = {"objective": case.objective, "total_steps": 1} | case.settings | settings
    Tutor(student, optimizer, teacher, **kept).step(case.batch(action), JUDGES)
    return held_out_loss(student)


def gradient_of(case: Sampling, teacher: nn.Module) -> Tensor:
    """Of the expected held-out loss, by central differences of real training."""
    losses = {a: trained(case, teacher, a) for a in case.actions}
    found = []
    for name, p in teacher.named_parameters():
        for number in range(p.numel()):
            at, slope = p.detach().view(-1)[number], 0.0
            before = at.clone()
            for sign in (1, -1):
                at.copy_(before + sign * SIZE)
                moved = name.startswith(case.direct or ("none",))
                for a in case.actions:
                    loss = trained(case, teacher, a) if moved else losses[a]
                    slope += sign * chance(teacher, a) * loss / (2 * SIZE)
            at.copy_(before)
            found.append(slope)
    return torch.tensor(found, dtype=torch.float64)


def estimated(case: Sampling, signal: Signal) -> Tensor:
    """The expectation of a signal's estimate over all actions."""
    total = torch.zeros((), dtype=torch.float64)
    for action in case.actions:
        teacher = case.teacher().double()
        before = parameters_to_vector(teacher.parameters()).detach()
        learner = SGD(teacher.parameters(), lr=1.0)
        own = chance(teacher, action)
        trained(case, teacher, action, signal=signal, teacher_optimizer=learner)
        after = parameters_to_vector(teacher.parameters()).detach()
        total = total + own * (before - after)
    return total


@pytest.mark.parametrize("name", CASES)
def test_the_expected_estimate_is_the_gradient_of_the_held_out_loss(name: str) -> None:
    case = CASES[name]
    teacher = case.teacher().double()
    want = gradient_of(case, teacher)
    found = estimated(case, GradientAlignment(evaluate_on="held-out", normalise="none"))
    torch.testing.assert_close(
        RATE * found, want, rtol=1e-3, atol=2e-3 * float(want.abs().max())
    )
    assert float(want.abs().max()) > 1e-3 * RATE


def estimate_of(
    teacher: nn.Module, *, action: tuple[int, ...], product=None, **settings
) -> Tensor:
    """A single estimate by unnormalised rewards, all the teacher's parameters in a row."""
    how = GradientAlignment(product or Automatic(), evaluate_on="held-out", normalise="none")
    before = parameters_to_vector(teacher.parameters()).detach()
    learner = SGD(teacher.parameters(), lr=1.0)
    trained(
        Sampling(lambda: teacher, **settings),
        teacher,
        action,
        signal=how,
        teacher_optimizer=learner,
    )
    return before - parameters_to_vector(teacher.parameters()).detach()


@pytest.mark.parametrize("method", ["forward", "ghost", "difference", "one-sided"])
@pytest.mark.parametrize("action", [(1, 0, 1), (0, 0, 1), (0, 0, 0)])
def test_every_way_to_take_dot_products_gives_the_same_rewards(method, action) -> None:
    want = estimate_of(Chosen("mean").double(), action=action)
    found = estimate_of(Chosen("mean").double(), action=action, product=Alignment(method))
    torch.testing.assert_close(found, want, rtol=1e-2, atol=1e-4)
    assert bool(want.any()) == any(action)


def test_an_operator_without_forward_mode_is_rewarded_under_attached_weights_too(
    monkeypatch,
) -> None:
    teachers = [
        CombinedTeacher(Moved(), Weighs("mean", attached=True)).double() for _ in range(2)
    ]
    want = estimate_of(teachers[0], action=(1, 0, 1))

    def without(*_: object) -> Tensor:
        raise NotImplementedError

    monkeypatch.setattr(forward, "make_dual", without)
    torch.testing.assert_close(estimate_of(teachers[1], action=(1, 0, 1)), want)


@pytest.mark.parametrize("rows", [1, 7, 49, 1000])
def test_where_all_rows_count_the_same_rewards_are_the_paper_s_bit_for_bit(rows: int) -> None:
    student = nn.Linear(2, C)
    view = StudentView(student, SGD(student.parameters(), lr=1.0))
    made = torch.Generator().manual_seed(0)
    dots, ids = torch.randn(rows, generator=made), torch.arange(rows)
    prepared, every = as_prepared(Batch(dots, ids, ids)), torch.ones(rows, dtype=torch.bool)
    for teacher in (Plain(), Chosen(None)):
        problem = BilevelProblem(view, teacher, cross_entropy)
        found = pseudo_values(problem, dots, torch.ones(rows), prepared, every)
        assert torch.equal(found, dots)


def test_what_is_dropped_or_has_no_label_teaches_nothing() -> None:
    dropped = estimate_of(Chosen(None).double(), action=(1, 0, 1))
    assert dropped[1] == 0
    assert bool((dropped[[0, 2]] != 0).all())
    marked = {"batch": lambda a: unlabelled(batch_of(a)), "objective": MARKED}
    for rule in (None, "mean", "group"):
        without = estimate_of(Chosen(rule).double(), action=(1, 1, 1), **marked)
        assert without[1] == 0
        assert bool((without[[0, 2]] != 0).all())


def test_dropped_rows_cost_no_pass_of_their_own() -> None:
    passes = []
    for action in ((1, 1, 1), (1, 0, 1)):
        calls: list[int] = []
        with monitored(calls):
            estimate_of(Chosen("mean").double(), action=action)
        passes.append(len(calls))
    assert passes[0] == passes[1]


@contextmanager
def monitored(calls: list[int]) -> Iterator[None]:
    """Note every pass of a student's last layer."""
    hook = nn.modules.module.register_module_forward_hook(
        lambda module, _args, _out: calls.append(1) if isinstance(module, nn.Tanh) else None
    )
    try:
        yield
    finally:
        hook.remove()


def test_weights_by_other_rows_are_refused_where_batches_are_sampled() -> None:
    teacher = CombinedTeacher(Moved(), SelfPaced(start=0.5)).double()
    with pytest.raises(
        UsageError, match="CombinedTeacher samples in prepare and weighs a row by the other"
    ):
        estimate_of(teacher, action=(1, 0, 1))
    kept = Chosen("mean").double()
    kept.keeps = Neighbours()
    assert bool(estimate_of(kept, action=(1, 0, 1)).isfinite().all())  # prepare does not sample


class Neighbours(ByLogit):
    """Weighs by the mean loss of the batch, too."""

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        return (self.logits[prepared.ids] + observation.losses.mean()).sigmoid()


class AtTest(Chosen):
    at_test = True


@pytest.mark.parametrize("signal", [GradientAlignment, NextStepLoss])
def test_a_teacher_that_acts_at_test_is_refused_where_held_out_examples_judge(signal) -> None:
    teacher = AtTest("mean").double()
    learner = SGD(teacher.parameters(), lr=1.0)
    with pytest.raises(UsageError, match=r"AtTest acts at test.*evaluate_on='next'"):
        trained(
            CASES["kept"], teacher, (1, 0, 1),
            signal=signal(evaluate_on="held-out"), teacher_optimizer=learner,
        )  # fmt: skip


def test_without_a_rate_rewards_are_as_at_any_other() -> None:
    found = [
        estimate_of(
            Chosen("mean").double(),
            action=(1, 0, 1),
            optimizer=lambda student, rate=rate: SGD(
                student.parameters(), lr=rate, maximize=True
            ),
        )
        for rate in (0.0, RATE)
    ]
    torch.testing.assert_close(*found, rtol=1e-3, atol=0)

"""Which parameters a step moves may change within a window, for every signal."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from tests.cases import InputWeigher, stream
from tests.signals.odd import (
    Case,
    Sometimes,
    frozen_at,
    head_only,
    joined_at,
    momentum,
    network,
)
from tests.signals.test_odd_cases import BEFORE, judged, trained
from tests.tutoring import same, teaching
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.trees import inner
from tutelage.signals import (
    GradientAlignment,
    Lookahead,
    NextStepLoss,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
    WholeRun,
)
from tutelage.signals.products import DoubleBackward, FiniteDifference, ForwardOverReverse
from tutelage.teachers import KeepOrDrop
from tutelage.training.loops import episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

STEPS = 4
Between = Callable[[int, nn.Module, Optimizer], None]


def adam(student: nn.Module) -> Optimizer:
    return Adam(student.parameters(), lr=0.02, weight_decay=0.1)


def head_by_adam(student: nn.Module) -> Optimizer:
    return Adam(student.get_submodule("2").parameters(), lr=0.02, amsgrad=True)


def left_at(start: int) -> Between:
    """A group is taken from the optimiser."""

    def change(number: int, student: nn.Module, optimizer: Optimizer) -> None:
        if number == 0:
            optimizer.param_groups[0]["params"] = list(student.get_submodule("2").parameters())
            optimizer.add_param_group({"params": list(student.get_submodule("0").parameters())})
        if number == start:
            optimizer.param_groups.pop()

    return change


def in_turns(number: int, student: nn.Module, _optimizer: Optimizer) -> None:
    student.get_submodule("0").requires_grad_(number % 2 == 0)
    student.get_submodule("2").requires_grad_(number % 2 == 1)


CASES: dict[str, Case] = {
    "frozen midway": Case(between=frozen_at(BEFORE + 2, BEFORE + 3)),
    "frozen midway, adam": Case(
        optimizer=adam, between=frozen_at(BEFORE + 2, BEFORE + 3), reversible=False
    ),
    "frozen for a step": Case(between=frozen_at(BEFORE + 1)),
    "thawed midway": Case(between=frozen_at(0, 1, BEFORE, BEFORE + 1)),
    "in turns": Case(between=in_turns),
    "in turns, adam": Case(optimizer=adam, between=in_turns, reversible=False),
    "added midway": Case(optimizer=head_only, between=joined_at(BEFORE + 2)),
    "added midway, adam": Case(
        optimizer=head_by_adam, between=joined_at(BEFORE + 2), reversible=False
    ),
    "added at the last step": Case(optimizer=head_only, between=joined_at(BEFORE + 3)),
    "taken away midway": Case(between=left_at(BEFORE + 2)),
    "taken away midway, adam": Case(
        optimizer=adam, between=left_at(BEFORE + 2), reversible=False
    ),
    "a branch for some batches": Case(Sometimes),
}


def signals_of(case: Case) -> list[Signal]:
    found: list[Signal] = [
        Unrolled(STEPS),
        Replayed(STEPS),
        Replayed(STEPS, memory="log", product=DoubleBackward()),
        Replayed(STEPS, product=ForwardOverReverse()),
        Replayed(STEPS, product=FiniteDifference(1e-4)),
    ]
    products = (DoubleBackward(), ForwardOverReverse(), FiniteDifference(1e-4))
    undone: list[Signal] = [Reversible(STEPS, product=product) for product in products]
    return [*found, *undone] if case.reversible else found


@pytest.mark.parametrize("name", CASES)
def test_every_signal_equals_differences_of_real_training(name: str) -> None:
    case, size = CASES[name], 1e-6
    run = trained(case, STEPS)
    made = torch.Generator().manual_seed(3)
    way = {
        k: torch.randn(p.shape, generator=made, dtype=p.dtype) for k, p in run.teacher.items()
    }
    up, down = (
        judged(case, STEPS, {k: sign * size * d for k, d in way.items()}, run.held_out)
        for sign in (1, -1)
    )
    want = (up - down) / (2 * size)
    for signal in signals_of(case):
        grad = signal(run.problem, run.teacher, run.window, run.held_out).grad
        rtol = 1e-4 if "Finite" in repr(signal) else 1e-6
        assert abs(float(inner(grad, way)) - want) <= rtol * abs(want) + 1e-9, repr(signal)


def test_a_run_that_stops_after_a_group_was_added_goes_on_where_it_was() -> None:
    def made(*, joined: bool) -> Tutor:
        torch.manual_seed(0)
        student, teacher = network().double(), InputWeigher().double()
        optimizer = head_only(student)
        if joined:
            joined_at(0)(0, student, optimizer)
        learner = SGD(teacher.parameters(), lr=1.0)
        signal = Unrolled(STEPS)
        return Tutor(student, optimizer, teacher, learner, signal=signal, teacher_every=STEPS)

    batches = stream()
    seen = [next(batches) for _ in range(STEPS + 1)]
    whole, resumed = made(joined=False), made(joined=True)
    for number in range(STEPS):
        joined_at(2)(number, whole.student, whole.optimizer)
        if number == STEPS - 1:
            resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
        whole.step(seen[number], seen[STEPS])
    resumed.step(seen[STEPS - 1], seen[STEPS])
    assert same(resumed.state_dict(), whole.state_dict())


class Spare(nn.Module):
    """Has a parameter that no step reaches, and a branch that some batches reach."""

    def __init__(self) -> None:
        super().__init__()
        self.used = Sometimes()
        self.spare = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


WHOLE: list[WholeRun] = [
    Replayed(STEPS),
    Replayed(STEPS, product=ForwardOverReverse()),
    Replayed(STEPS, product=FiniteDifference(1e-4)),
    Reversible(STEPS),
    Reversible(STEPS, exact=True),
]


def taught(signal: WholeRun) -> list[Tensor]:
    """What a teacher makes of one whole run."""
    torch.manual_seed(1)
    teacher, batches = InputWeigher().double(), stream()
    given = [next(batches) for _ in range(STEPS + 1)]
    before = [p.detach().clone() for p in teacher.parameters()]

    def make(_: int) -> tuple[nn.Module, Optimizer]:
        torch.manual_seed(0)
        student = Spare().double()
        return student, momentum(student)

    def runs(_: int) -> list[Batch]:
        return given[:STEPS]

    learner = SGD(teacher.parameters(), lr=1.0)
    next(episodic(make, teacher, learner, runs, lambda _: given[STEPS], signal=signal))
    return [was - p.detach() for p, was in zip(teacher.parameters(), before, strict=True)]


@pytest.mark.parametrize("signal", WHOLE, ids=repr)
def test_whole_runs_know_what_each_step_reaches(signal: WholeRun) -> None:
    for found, want in zip(taught(signal), taught(Unrolled(STEPS)), strict=True):
        assert bool(want.any())
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-6 * float(want.abs().max()))


@pytest.mark.parametrize("signal", [Lookahead(judge="next"), GradientAlignment()], ids=repr)
@pytest.mark.parametrize("how", ["frozen", "taken away"])
def test_a_judge_without_the_gradient_of_what_was_moved_is_refused(signal, how) -> None:
    teacher = InputWeigher() if isinstance(signal, Lookahead) else KeepOrDrop(InputWeigher())
    tutor, batches = (
        teaching(signal, student=network().double(), teacher=teacher.double()),
        stream(),
    )
    tutor.step(next(batches))
    if how == "frozen":
        tutor.student.get_submodule("0").requires_grad_(requires_grad=False)
    else:
        tutor.optimizer.param_groups[0]["params"] = tutor.optimizer.param_groups[0]["params"][
            2:
        ]
    with pytest.raises(UnsupportedStudentError, match=r"no gradient for 0\.weight, 0\.bias"):
        tutor.step(next(batches))


def test_a_judge_that_is_a_loss_alone_needs_no_gradient() -> None:
    teacher = KeepOrDrop(InputWeigher()).double()
    tutor = teaching(
        NextStepLoss(normalise="none"), student=network().double(), teacher=teacher
    )
    batches = stream()
    tutor.step(next(batches))
    tutor.student.get_submodule("0").requires_grad_(requires_grad=False)
    before = [p.detach().clone() for p in teacher.parameters()]
    tutor.step(next(batches))
    assert any(
        not torch.equal(p, was) for p, was in zip(teacher.parameters(), before, strict=True)
    )


def test_a_parameter_that_is_gone_is_named() -> None:
    student = network().double()
    student.append(nn.Linear(3, 3).double())
    tutor, batches = teaching(Unrolled(2), student=student), stream()
    tutor.step(next(batches))
    del student[3]
    tutor.optimizer.param_groups[0]["params"] = list(student.parameters())
    with pytest.raises(UnsupportedStudentError, match=r"3\.weight.*no longer"):
        tutor.step(next(batches), next(batches))

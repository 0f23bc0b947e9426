"""Which parameters a step moves may change within a window, for every signal."""

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from tests.cases import C, D, InputWeigher, stream
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
from tutelage.errors import InexactWindowError, UnsupportedStudentError
from tutelage.functional.trees import inner
from tutelage.signals import (
    GradientAlignment,
    Lookahead,
    NextStepLoss,
    Replayed,
    Reversible,
    Signal,
    TrajectorySignal,
    Unrolled,
)
from tutelage.signals.products import DoubleBackward, FiniteDifference, ForwardOverReverse
from tutelage.signals.signal import CHECK_EVERY
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


WHOLE: list[TrajectorySignal] = [
    Replayed(STEPS),
    Replayed(STEPS, product=ForwardOverReverse()),
    Replayed(STEPS, product=FiniteDifference(1e-4)),
    Reversible(STEPS),
    Reversible(STEPS, exact=True),
]


def taught(signal: TrajectorySignal) -> list[Tensor]:
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
def test_whole_runs_know_what_each_step_reaches(signal: TrajectorySignal) -> None:
    for found, want in zip(taught(signal), taught(Unrolled(STEPS)), strict=True):
        assert bool(want.any())
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-6 * float(want.abs().max()))


@pytest.mark.parametrize(
    "signal", [Lookahead(evaluate_on="next"), GradientAlignment()], ids=repr
)
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


class Body(nn.Module):
    """Has batch statistics, dropout and a buffer of its own."""

    level: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(D, 7), nn.Linear(7, C)
        self.norm, self.drop = nn.BatchNorm1d(7), nn.Dropout(0.3)
        self.frozen = nn.Parameter(torch.ones(7), requires_grad=False)
        self.register_buffer("level", torch.ones(7))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.drop(self.norm(self.first(x)).tanh())
        return self.last(hidden * self.level * self.frozen)


def half_of(tutor: Tutor, name: str) -> None:
    state = tutor.student.state_dict()
    tutor.student.load_state_dict({**state, name: state[name] / 2})


def loaded(tutor: Tutor) -> None:
    tutor.optimizer.load_state_dict({**tutor.optimizer.state_dict(), "state": {}})


def halved_memory(tutor: Tutor) -> None:
    for known in tutor.optimizer.state.values():
        known[next(k for k in known if k != "step")].mul_(0.5)


def averaged(tutor: Tutor) -> None:
    for p in tutor.student.parameters():
        p.data.lerp_(torch.ones_like(p), 0.1)


def evaluated(tutor: Tutor) -> None:
    """An average of the parameters is judged in evaluation mode, and taken out again."""
    before = copy.deepcopy(tutor.student.state_dict())
    averaged(tutor)
    tutor.student.eval()(torch.ones(4, D, dtype=torch.float64))
    tutor.student.train()
    tutor.student.load_state_dict(before)


EDITS: dict[str, Callable[[Tutor], object]] = {
    "memory cleared": lambda tutor: tutor.optimizer.state.clear(),
    "memory loaded": loaded,
    "memory halved": halved_memory,
    "parameters averaged": averaged,
    "a parameter halved": lambda tutor: half_of(tutor, "last.weight"),
    "a bias set to zero": lambda tutor: nn.init.zeros_(
        tutor.student.get_parameter("last.bias")
    ),
    "a frozen parameter halved": lambda tutor: half_of(tutor, "frozen"),
    "a buffer halved": lambda tutor: half_of(tutor, "level"),
    "evaluation mode": lambda tutor: tutor.student.eval(),
    "statistics at rest": lambda tutor: tutor.student.get_submodule("norm").eval(),
    "no dropout": lambda tutor: tutor.student.get_submodule("drop").eval(),
}
OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {"sgd": momentum, "adam": adam}


def edited(edit: Callable[[Tutor], object], signal: Signal, optimizer: str, at: int) -> Tutor:
    torch.manual_seed(0)
    student, teacher = Body().double(), InputWeigher().double()
    learner = SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(
        student,
        OPTIMIZERS[optimizer](student),
        teacher,
        learner,
        signal=signal,
        teacher_every=STEPS + 2,
    )
    batches = stream()
    for number in range(STEPS + 2 + (getattr(signal, "evaluate_on", "") == "next")):
        if number == at:
            edit(tutor)
        tutor.step(next(batches), next(batches))
    return tutor


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("signal", [Unrolled(STEPS), Replayed(STEPS)], ids=repr)
@pytest.mark.parametrize("edit", EDITS)
def test_what_is_changed_between_two_steps_of_a_window_is_refused(
    edit, signal, optimizer
) -> None:
    with pytest.raises(UnsupportedStudentError, match=r"4 steps .*changed between two of them"):
        edited(EDITS[edit], signal, optimizer, at=4)
    assert edited(EDITS[edit], signal, optimizer, at=2).skipped_teacher_steps == 0


UNDONE = [Reversible(STEPS), Reversible(STEPS, product=DoubleBackward())]


@pytest.mark.parametrize("signal", UNDONE, ids=repr)
@pytest.mark.parametrize("at", [3, 4, 5])
@pytest.mark.parametrize("edit", EDITS)
def test_what_is_changed_within_a_window_that_is_undone_is_refused(edit, at, signal) -> None:
    if (edit, at) == ("a buffer halved", 3):  # the first step has the buffers before it
        assert edited(EDITS[edit], signal, "sgd", at=at).skipped_teacher_steps == 0
        return
    with pytest.raises(
        (UnsupportedStudentError, InexactWindowError), match="changed between two of them"
    ):
        edited(EDITS[edit], signal, "sgd", at=at)


@pytest.mark.parametrize("signal", UNDONE, ids=repr)
def test_what_is_changed_before_a_window_that_is_undone_is_taken(signal) -> None:
    for edit in EDITS.values():
        assert edited(edit, signal, "sgd", at=2).skipped_teacher_steps == 0


class Switched(nn.Module):
    """Has a branch that can be switched off."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.branch, self.on = nn.Linear(D, C), nn.Linear(D, C), True

    def forward(self, x: Tensor) -> Tensor:
        return self.plain(x) + self.branch(x) if self.on else self.plain(x)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_parameter_that_undoing_does_not_reach_is_named(steps) -> None:
    student, batches = Switched().double(), stream()
    tutor = teaching(Reversible(steps), student=student)
    tutor.optimizer.register_step_post_hook(lambda *_: setattr(student, "on", False))
    for _ in range(steps - 1):
        tutor.step(next(batches))
    with pytest.raises(UnsupportedStudentError, match=r"moved branch\.weight, branch\.bias,"):
        tutor.step(next(batches), next(batches))


@pytest.mark.parametrize("signal", [Unrolled(STEPS), Replayed(STEPS)], ids=repr)
def test_what_is_back_at_the_next_step_is_no_change(signal) -> None:
    tutor = edited(evaluated, signal, "sgd", at=4)
    assert tutor.skipped_teacher_steps == 0


@pytest.mark.parametrize(
    "signal",
    [Unrolled(STEPS), Replayed(STEPS), Unrolled(1), Lookahead(), Lookahead(evaluate_on="next")],
    ids=repr,
)
@pytest.mark.parametrize("where", ["a parameter's hook", "before a step", "after a step"])
def test_gradients_that_others_change_are_refused(signal, where) -> None:
    def hooked(tutor: Tutor) -> None:
        def clip(*_: object) -> None:
            nn.utils.clip_grad_norm_(tutor.student.parameters(), 1e-2)

        def constrain(*_: object) -> None:
            for p in tutor.student.parameters():
                p.data.clamp_(-0.1, 0.1)

        if where == "a parameter's hook":
            weight = tutor.student.get_parameter("first.weight")
            weight.register_hook(lambda g: g.clamp(-1e-3, 1e-3))
        elif where == "before a step":
            tutor.optimizer.register_step_pre_hook(clip)
        else:
            tutor.optimizer.register_step_post_hook(constrain)

    with pytest.raises(
        UnsupportedStudentError, match=r"Clip by step_strategy=PlainStep\(max_norm\)"
    ):
        edited(hooked, signal, "sgd", at=0)


def test_in_half_precision_only_large_changes_are_refused() -> None:
    def trained(scale: float) -> None:
        torch.manual_seed(0)
        student = network().bfloat16()
        tutor, batches = teaching(Unrolled(STEPS), student=student), stream()
        for number in range(STEPS):
            if number == 2:
                student.get_parameter("2.weight").data.mul_(scale)
            held_out, batch = (
                b._replace(inputs=b.inputs.bfloat16()) for b in (next(batches), next(batches))
            )
            tutor.step(batch, held_out)

    trained(1.0)
    with pytest.raises(UnsupportedStudentError, match="4 steps"):
        trained(-4.0)


@pytest.mark.parametrize(("dtype", "factor"), [(torch.float64, 1e-4), (torch.float32, 1e-2)])
@pytest.mark.parametrize("signal", [Unrolled(STEPS), Replayed(STEPS)], ids=repr)
def test_small_changes_above_the_rounding_are_refused(signal, dtype, factor) -> None:
    def trained(scale: float) -> int:
        torch.manual_seed(0)
        student = Body().to(dtype)
        tutor, batches = teaching(signal, student=student), stream()
        for _ in range(STEPS):
            student.level.mul_(scale)
            held_out, batch = (
                b._replace(inputs=b.inputs.to(dtype)) for b in (next(batches), next(batches))
            )
            tutor.step(batch, held_out)
        return tutor.skipped_teacher_steps

    assert trained(1.0) == 0
    with pytest.raises(UnsupportedStudentError, match=r"4 steps .*objective's own state"):
        trained(1 - factor)


def test_a_window_of_one_step_is_named_as_one() -> None:
    student = Body().double()
    hook = student.get_parameter("first.weight").register_hook(lambda g: g / 2)
    tutor, batches = teaching(Unrolled(1), student=student), stream()
    with pytest.raises(UnsupportedStudentError, match=r"^A step of the student, recomputed"):
        tutor.step(next(batches), next(batches))
    hook.remove()


def train(tutor: Tutor, batches: Iterator[Batch], steps: int) -> None:
    for _ in range(steps):
        tutor.step(next(batches), next(batches))


LATER: dict[str, tuple[Signal, int]] = {
    "lookahead": (Lookahead(), 1),
    "lookahead, next": (Lookahead(evaluate_on="next"), 1),
    "lookahead, nothing recorded": (Lookahead(product=DoubleBackward()), CHECK_EVERY),
    "restep": (Lookahead(mode="restep"), CHECK_EVERY),
    "alignment": (GradientAlignment(), 1),
    "reversible": (Reversible(1), CHECK_EVERY),
    "reversible, gradient free": (Reversible(1, product=DoubleBackward()), 1),
}


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize("resumed", [False, True])
def test_changes_that_begin_in_later_windows_are_refused(name, resumed) -> None:
    signal, within = LATER[name]
    weigher = InputWeigher()
    teacher = KeepOrDrop(weigher) if isinstance(signal, GradientAlignment) else weigher

    def clip(*_: object) -> None:
        nn.utils.clip_grad_norm_(tutor.student.parameters(), 1e-2)

    tutor = teaching(signal, student=network().double(), teacher=teacher.double())
    batches = stream()
    for _ in range(3):
        tutor.step(next(batches), next(batches))
    if resumed:  # the first window after it is checked
        tutor.load_state_dict(copy.deepcopy(tutor.state_dict()))
        within = 1
    tutor.optimizer.register_step_pre_hook(clip)
    steps = within + (getattr(signal, "evaluate_on", "") == "next")
    with pytest.raises(
        UnsupportedStudentError, match=r"changed (between two of them|before the teacher step)"
    ):
        train(tutor, batches, steps)


@pytest.mark.parametrize("mode", ["restep", "virtual"])
def test_tentative_steps_whose_gradient_others_change_are_refused(mode) -> None:
    tutor, batches = teaching(Lookahead(mode=mode), student=network().double()), stream()
    tutor.student.get_parameter("0.weight").register_hook(lambda g: g / 2)
    with pytest.raises(UnsupportedStudentError, match=r"PlainStep\(max_norm\)"):
        tutor.step(next(batches), next(batches))

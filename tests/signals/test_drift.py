"""A window that is undone in single precision is good, or it is refused."""

import copy
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.bilevel import BilevelProblem
from tutelage.errors import InexactWindowError, UnsupportedStudentError
from tutelage.functional.student import StudentView
from tutelage.models import resnet20
from tutelage.signals import Reversible, Signal, Unrolled
from tutelage.signals.drift import ENTRIES, WORST_ERROR, entries_of, sample_of
from tutelage.teachers import MarginLoss
from tutelage.training.loops import episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Params, StudentState, Window
from tutelage_cli.data.sources import load

N, D, C = 12, 4, 3
GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(N, D, generator=GENERATOR, dtype=torch.float64)
HELD_OUT = torch.randn(7, D, generator=GENERATOR, dtype=torch.float64)


class Weights(nn.Module):
    """One weight for each example."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.linspace(-1, 1, N))

    def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.phi[prepared.ids].sigmoid()


class Run(NamedTuple):
    """How a student is trained."""

    steps: int
    rate: float
    momentum: float
    scale: float = 1.0
    width: int = 16
    warm: float = 1.0
    """the rate of the first step beside that of the last"""


def batch(number: int, scale: float, dtype: torch.dtype) -> Batch:
    rows = torch.randperm(N, generator=torch.Generator().manual_seed(number))[:5]
    return Batch((X[rows] * scale).to(dtype), rows % C, rows)


def tutor_for(run: Run, signal: Signal, dtype: torch.dtype = torch.float32) -> Tutor:
    torch.manual_seed(0)
    first, last = nn.Linear(D, run.width), nn.Linear(run.width, C)
    student, teacher = nn.Sequential(first, nn.Tanh(), last).to(dtype), Weights().to(dtype)
    optimizer = SGD(student.parameters(), lr=run.rate, momentum=run.momentum)
    learner = SGD(teacher.parameters(), lr=1.0)
    return Tutor(student, optimizer, teacher, learner, signal=signal, teacher_every=run.steps)


def take(tutor: Tutor, run: Run, steps: int | None = None) -> None:
    dtype = next(tutor.student.parameters()).dtype
    held_out = Batch((HELD_OUT * run.scale).to(dtype), torch.arange(7) % C, torch.arange(7))
    for _ in range(run.steps if steps is None else steps):
        share = tutor.steps / run.steps
        for group in tutor.optimizer.param_groups:
            group["lr"] = run.rate * (run.warm + (1 - run.warm) * share)
        due = held_out if tutor.wants_held_out else None
        tutor.step(batch(tutor.steps, run.scale, dtype), due)


def learned(tutor: Tutor) -> Tensor:
    return (Weights().phi - tutor.teacher.get_parameter("phi")).detach().double()


REFUSED = {
    "long, steep": Run(60, 0.1, 0.9, 3.0),
    "little momentum, large rate": Run(13, 1.5, 0.5),
    "warmed up": Run(20, 3.0, 0.9, 3.0, warm=0.01),
}
TAKEN = {
    "two steps": Run(2, 0.1, 0.9),
    "twenty": Run(20, 0.1, 0.9),
    "heavy": Run(25, 0.01, 0.99),
    "little momentum": Run(5, 0.5, 0.5),
    "wide": Run(8, 0.1, 0.9, width=2000),  # more entries than are compared
}


@pytest.mark.parametrize("run", REFUSED)
def test_a_window_that_curvature_spoils_is_refused_at_the_first_look(run) -> None:
    tutor = tutor_for(REFUSED[run], Reversible(REFUSED[run].steps))
    with pytest.raises(
        InexactWindowError, match=r"Reversing .* Use a window of about \d+ steps"
    ):
        take(tutor, REFUSED[run])
    assert not learned(tutor).any()


@pytest.mark.parametrize("run", TAKEN)
def test_a_window_that_is_taken_gives_what_double_precision_gives(run) -> None:
    found = []
    for signal, dtype in ((Reversible, torch.float32), (Unrolled, torch.float64)):
        tutor = tutor_for(TAKEN[run], signal(TAKEN[run].steps), dtype)
        take(tutor, TAKEN[run])
        found.append(learned(tutor))
    assert (found[0] - found[1]).norm() < 1e-3 * found[1].norm()


@pytest.mark.parametrize("steps", [11, 14, 17, 20])
def test_the_steps_that_the_error_names_are_taken(steps) -> None:
    run = REFUSED["warmed up"]._replace(warm=1.0, rate=0.5, steps=steps)
    with pytest.raises(InexactWindowError) as caught:
        take(tutor_for(run, Reversible(run.steps)), run)
    most = int(str(caught.value).split("Use a window of about ")[1].split()[0])
    assert 2 <= most < run.steps
    shorter = run._replace(steps=most)
    take(tutor_for(shorter, Reversible(most)), shorter)


def test_double_precision_takes_what_single_precision_cannot() -> None:
    run = REFUSED["little momentum, large rate"]
    tutor = tutor_for(run, Reversible(run.steps), torch.float64)
    take(tutor, run)
    assert learned(tutor).any()


def test_a_later_window_is_left_out_counted_and_warned_of(caplog) -> None:
    run = Run(13, 0.05, 0.5)
    tutor = tutor_for(run, Reversible(run.steps))
    take(tutor, run)
    before = learned(tutor)
    assert before.any()
    assert not tutor.skipped_teacher_steps
    steep = run._replace(rate=3.0)
    take(tutor, steep)
    take(tutor, steep)
    assert tutor.skipped_teacher_steps == 2
    assert torch.equal(learned(tutor), before)
    warnings = [
        r.getMessage() for r in caplog.records if "Reversing 13 steps" in r.getMessage()
    ]
    assert len(warnings) == 1
    assert "This teacher step is skipped" in warnings[0]
    again = tutor_for(run, Reversible(run.steps))
    again.load_state_dict(copy.deepcopy(tutor.state_dict()))
    take(again, steep)  # resumed, it is no first look either
    assert again.skipped_teacher_steps == 3


def test_a_run_resumed_within_a_window_is_as_good_a_judge_of_it() -> None:
    run = REFUSED["little momentum, large rate"]
    tutor = tutor_for(run, Reversible(run.steps))
    take(tutor, run, 6)
    again = tutor_for(run, Reversible(run.steps))
    again.load_state_dict(copy.deepcopy(tutor.state_dict()))
    messages = []
    for one in (tutor, again):
        with pytest.raises(InexactWindowError) as caught:
            take(one, run, run.steps - 6)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_first_step_that_had_another_gradient_is_refused() -> None:
    run = Run(3, 0.1, 0.9)
    for dtype, factor in ((torch.float32, 1.1), (torch.float64, 1.1), (torch.float64, 1.0)):
        tutor, signal = tutor_for(run, Reversible(run.steps), dtype), Reversible(run.steps)
        weight = tutor.student.get_parameter("0.weight")
        hook = weight.register_hook(lambda g, factor=factor: g * factor)
        take(tutor, run, 1)
        hook.remove()
        for older in (False, True):
            again, state = tutor_for(run, signal, dtype), copy.deepcopy(tutor.state_dict())
            if older:  # a state of an older version
                del state["sample"]
            again.load_state_dict(state)
            if factor == 1.0 or older:
                take(again, run, run.steps - 1)
                continue
            with pytest.raises(UnsupportedStudentError, match="The first of 3 steps"):
                take(again, run, run.steps - 1)


def test_a_window_that_is_not_finite_is_skipped_rather_than_refused() -> None:
    run = Run(5, 0.1, 0.9, scale=float("inf"))
    tutor = tutor_for(run, Reversible(run.steps))
    take(tutor, run)
    assert tutor.skipped_teacher_steps == 1


class Seen(Signal):
    """Keeps the window, with or without what is known of its start."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.calls: list[tuple[BilevelProblem, Params, Window, Batch]] = []

    def copy_start(self, student: StudentView) -> None:
        pass

    def sample_start(self, student: StudentView) -> StudentState:
        return sample_of(student.state())

    def __call__(self, problem: BilevelProblem, phi: Params, window: Window, held_out: Batch):
        end = {k: p.clone() for k, p in window.end.params.items()}
        slots = {
            slot: {k: v.clone() for k, v in m.items()} for slot, m in window.end.slots.items()
        }
        kept = Window(None, window.steps, StudentState(end, {}, slots), sample=window.sample)
        self.calls.append((problem, phi, kept, held_out))
        return Estimate({k: torch.zeros_like(p) for k, p in phi.items()}, torch.zeros(()))


def test_the_error_is_measured_where_the_start_is_known_and_else_estimated() -> None:
    run, found = TAKEN["little momentum"], []
    seen: Any = Seen(run.steps)
    take(tutor_for(run, seen), run)
    problem, phi, window, held_out = seen.calls[0]
    assert window.sample is not None
    for sample in (window.sample, None):
        known = Window(None, window.steps, window.end, sample=sample)
        found.append(Reversible(run.steps)(problem, phi, known, held_out).facts["undone_error"])
    assert 0 < found[0] < found[1] < WORST_ERROR
    off = {k: x + 1e-3 for k, x in window.sample.params.items()}
    moved = window.sample._replace(params=off)
    wrong = Window(None, window.steps, window.end, sample=moved)
    with pytest.raises(InexactWindowError):
        Reversible(run.steps)(problem, phi, wrong, held_out)


def test_entries_of_a_large_parameter_are_some_of_it_always_the_same() -> None:
    large, small = torch.arange(3.0 * ENTRIES), torch.ones(2, 3)
    entries = entries_of({"large": large, "small": small})
    assert entries["large"].shape == (ENTRIES,)
    assert entries["large"].unique().numel() > ENTRIES / 2
    assert torch.equal(entries_of({"large": 2 * large})["large"], 2 * entries["large"])
    assert entries["small"].shape == (6,)


@pytest.mark.parametrize("first", [3.0, 0.05])
def test_a_whole_run_is_refused_first_and_left_out_later(first) -> None:
    run, teacher = Run(13, 0.05, 0.5), Weights()
    rates = (first, 3.0)

    def make(number: int):
        student = tutor_for(run, Reversible(run.steps)).student
        return student, SGD(student.parameters(), lr=rates[number], momentum=run.momentum)

    episodes = episodic(
        make,
        teacher,
        SGD(teacher.parameters(), lr=1.0),
        lambda _: [batch(number, 1.0, torch.float32) for number in range(run.steps)],
        lambda _: batch(99, 1.0, torch.float32),
        signal=Reversible(run.steps),
    )
    if first == rates[1]:
        with pytest.raises(InexactWindowError):
            next(episodes)
        return
    assert not next(episodes).skipped
    before, later = teacher.phi.detach().clone(), next(episodes)
    assert later.skipped
    assert later.facts["undone_error"] > WORST_ERROR
    assert torch.equal(teacher.phi.detach(), before)


@pytest.mark.parametrize("patience", [1, 3])
def test_the_first_windows_may_be_left_out_as_often_as_is_said(patience, caplog) -> None:
    run = REFUSED["little momentum, large rate"]
    tutor = tutor_for(run, Reversible(run.steps))
    assert tutor.teacher_updater is not None
    tutor.teacher_updater.patience = patience
    for _ in range(patience - 1):
        take(tutor, run)
    with pytest.raises(InexactWindowError):
        take(tutor, run)
    assert tutor.skipped_teacher_steps == patience - 1
    assert caplog.text.count("This teacher step is skipped.") == (patience > 1)


def test_the_curved_first_steps_of_a_deep_network_are_no_change_of_the_user() -> None:
    torch.manual_seed(100)
    student = resnet20(classes=10, channels=1)
    teacher = MarginLoss(student, 10)
    tutor = Tutor(
        student,
        SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4),
        teacher,
        torch.optim.Adam(teacher.parameters(), lr=0.02),
        signal=Reversible(2),
        teacher_every=5,
    )
    assert tutor.teacher_updater is not None
    tutor.teacher_updater.patience = 2
    digits = load("mnist5k").train
    for _ in range(5):
        drawn = [torch.randperm(len(digits))[:25] for _ in range(2)]
        images = [digits.images[rows].float() / 255 for rows in drawn]
        step, held_out = (
            Batch((x - x.mean()) / x.std(), digits.labels[rows], rows)
            for x, rows in zip(images, drawn, strict=True)
        )
        tutor.step(step, held_out if tutor.wants_held_out else None)
    assert tutor.steps == 5

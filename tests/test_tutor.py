"""A tutor is a plain training loop plus a teacher step now and then."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, lr_scheduler

from tests.cases import B, C, D, InputWeigher, Seen, Shifter, build, stream
from tests.tutoring import Copies, mixed_student, same, teaching
from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.losses.objectives import weighted_loss
from tutelage.randomness import mixed_seed
from tutelage.signals import (
    Implicit,
    Lookahead,
    Neumann,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
)
from tutelage.teachers import (
    InternalState,
    KeepOrDrop,
    KeepProbability,
    LossWeigher,
    Plain,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Observation, Params, PreparedBatch, Window


class Answer(Signal):
    """A signal that answers the same gradient for every entry, times the next of ``values``."""

    steps: int = 1

    def __init__(self, *values: float) -> None:
        self.values = itertools.cycle(values)
        self.calls = 0

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        self.calls += 1
        value = next(self.values)
        loss = problem.held_out_loss(window.end, teacher_params, held_out).detach()
        return Estimate({k: torch.full_like(p, value) for k, p in teacher_params.items()}, loss)


def groups(student: nn.Module) -> Optimizer:
    params = list(student.parameters())
    return SGD(
        [{"params": params[:2], "lr": 0.01, "momentum": 0.5}, {"params": params[2:]}],
        lr=0.1,
        momentum=0.9,
        weight_decay=0.01,
        nesterov=True,
    )


# A tutor without teaching is a plain loop.


@pytest.mark.parametrize(
    ("optimizer", "schedule"),
    [
        (groups, lambda o: lr_scheduler.StepLR(o, 3, 0.3)),
        (
            lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9),
            lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=8),
        ),
        (
            lambda s: AdamW(s.parameters(), lr=0.01, weight_decay=0.1),
            lambda o: lr_scheduler.CosineAnnealingLR(o, 8),
        ),
        (
            lambda s: Adam(s.parameters(), lr=0.01, amsgrad=True),
            lambda o: lr_scheduler.LambdaLR(o, lambda n: 1 / (n + 1)),
        ),
    ],
    ids=["groups", "one cycle", "adamw", "amsgrad"],
)
def test_an_untaught_tutor_equals_a_plain_loop_bit_for_bit(optimizer, schedule) -> None:
    students = [mixed_student(), mixed_student()]
    optimizers = [optimizer(student) for student in students]
    schedules = [schedule(o) for o in optimizers]
    tutor = Tutor(students[0], optimizers[0], Plain(), seed=7)
    batches = [next(stream(seed)) for seed in range(8)]
    for number, batch in enumerate(batches):
        record = tutor.step(batch)
        schedules[0].step()

        optimizers[1].zero_grad()
        torch.manual_seed(mixed_seed(7, number) + 1)
        logits = students[1](batch.inputs)
        loss = nn.functional.cross_entropy(logits, batch.targets, reduction="none").mean()
        loss.backward()
        optimizers[1].step()
        schedules[1].step()
        assert torch.equal(record.loss, loss)
        assert record.held_out_loss is None
    assert same(students[0].state_dict(), students[1].state_dict())
    assert same(optimizers[0].state_dict(), optimizers[1].state_dict())


def test_an_idle_teacher_trains_the_student_as_none_does() -> None:
    ends = []
    for signal in (Answer(0.0), None):
        student = mixed_student()
        optimizer, teacher = SGD(student.parameters(), lr=0.1, momentum=0.9), Plain()
        if signal is None:
            tutor = Tutor(student, optimizer, teacher)
        else:
            teacher = InternalState(student, classes=C).double()
            learner = SGD(teacher.parameters(), lr=0.1)
            tutor = Tutor(student, optimizer, teacher, learner, signal=signal)
        for seed in range(4):
            batch = next(stream(seed))
            tutor.step(batch, batch)
        ends.append((student.state_dict(), optimizer.state_dict()))
    assert same(*ends)


def test_a_step_leaves_the_global_random_state_alone() -> None:
    student = mixed_student()
    tutor = teaching(Unrolled(1), student=student)
    batch, before = next(stream()), torch.get_rng_state()
    tutor.step(batch, batch)
    assert torch.equal(torch.get_rng_state(), before)


def test_another_seed_draws_another_dropout() -> None:
    losses = []
    for seed in (0, 0, 1):
        student = mixed_student()
        tutor = Tutor(student, SGD(student.parameters(), lr=0.1), Plain(), seed=seed)
        losses.append(tutor.step(next(stream())).loss.item())
    assert losses[0] == losses[1] != losses[2]


# When the teacher steps.


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (1, 3), (2, 3), (3, 3)])
def test_the_teacher_steps_exactly_every_so_many_student_steps(steps, every) -> None:
    signal = Answer(1.0)
    signal.steps = steps
    teacher = Shifter().double()
    start = teacher.shift.detach().clone()
    tutor = teaching(signal, every=every, teacher=teacher)
    batches = stream()
    for number in range(1, 11):
        due = number % every == 0
        assert tutor.wants_held_out is due
        record = tutor.step(next(batches), next(batches))
        assert (record.held_out_loss is not None) is due
        assert signal.calls == number // every
        torch.testing.assert_close(teacher.shift.detach(), start - 0.1 * (number // every))
    assert tutor.steps == 10


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (1, 4), (2, 3), (4, 4)])
def test_the_window_holds_the_last_steps_and_the_student_before_them(steps, every) -> None:
    seen = Seen(steps)
    tutor = teaching(seen, every=every)
    batches = stream()
    given, states = [], []
    for _ in range(2 * every):
        given.append(next(batches))
        states.append(tutor.problem.student.snapshot())
        tutor.step(given[-1], given[-1])
    for call, (_, _, window, _) in enumerate(seen.calls, start=1):
        first = call * every - steps
        assert len(window.steps) == steps
        for step, batch in zip(window.steps, given[first:], strict=False):
            assert torch.equal(step.batch.inputs, batch.inputs)
            assert step.batch.inputs.data_ptr() != batch.inputs.data_ptr()
        assert window.start is not None
        assert same(list(window.start), list(states[first]))
    assert len(seen.calls) == 2


def test_an_untaught_tutor_never_wants_held_out_and_ignores_it() -> None:
    student = build("linear")
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), Plain())
    batch = next(stream())
    assert not tutor.wants_held_out
    assert tutor.step(batch, batch).held_out_loss is None


def test_a_missing_held_out_batch_is_an_error_before_anything_moves() -> None:
    student = mixed_student()
    tutor = teaching(Unrolled(1), student=student, every=2)
    batches = stream()
    tutor.step(next(batches))
    before = {k: v.clone() for k, v in student.state_dict().items()}
    with pytest.raises(ValueError, match="give held_out"):
        tutor.step(next(batches))
    assert tutor.steps == 1
    assert same(dict(student.state_dict()), before)


def test_the_teachers_gradients_are_gone_after_its_step_and_the_students_are_its_own() -> None:
    tutor = teaching(Lookahead())
    batch = next(stream())
    tutor.step(batch, batch)
    assert all(p.grad is None for p in tutor.teacher.parameters())
    assert all(p.grad is not None for p in tutor.student.parameters())


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_hypergradient_that_is_not_finite_skips_the_teacher_step_and_is_counted(bad) -> None:
    teacher = LossWeigher(width=3).double()
    start = [p.detach().clone() for p in teacher.parameters()]
    student = build("relu network")
    learner = Adam(teacher.parameters(), lr=0.1)
    optimizer = SGD(student.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, learner, signal=Answer(bad, 1.0))
    batches = stream()
    tutor.step(next(batches), next(batches))
    assert tutor.skipped_teacher_steps == 1
    assert all(torch.equal(p, s) for p, s in zip(teacher.parameters(), start, strict=True))
    assert not learner.state
    tutor.step(next(batches), next(batches))
    assert tutor.skipped_teacher_steps == 1
    assert all(not torch.equal(p, s) for p, s in zip(teacher.parameters(), start, strict=True))
    assert all(p.isfinite().all() for p in teacher.parameters())


def test_a_held_out_batch_that_is_not_finite_leaves_the_teacher_as_it_was() -> None:
    tutor = teaching(Unrolled(1))
    before = {k: v.clone() for k, v in tutor.teacher.state_dict().items()}
    batch = next(stream())
    tutor.step(batch, batch._replace(inputs=batch.inputs * float("inf")))
    assert tutor.skipped_teacher_steps == 1
    assert same(dict(tutor.teacher.state_dict()), before)


def test_a_teacher_step_that_raises_does_not_spoil_the_next_window() -> None:
    signal = Seen(2)
    tutor = teaching(signal)
    batches = stream()
    tutor.step(next(batches))
    assert tutor.teacher_updater is not None
    tutor.teacher_updater.signal = Unrolled(2)
    bad = next(batches)
    with pytest.raises(IndexError):
        tutor.step(bad, bad._replace(targets=bad.targets + 100))
    tutor.teacher_updater.signal = signal
    before = tutor.problem.student.snapshot()
    for _ in range(2):
        tutor.step(next(batches), next(batches))
    _, _, window, _ = signal.calls[0]
    assert len(window.steps) == 2
    assert window.start is not None
    assert same(window.start.params, before.params)


def test_a_student_step_that_raises_leaves_no_trace_in_the_window() -> None:
    signal = Seen(2)
    tutor = teaching(signal)
    batches = stream()

    def refuse(*_: object) -> None:
        raise KeyError("x")

    handle = tutor.optimizer.register_step_pre_hook(refuse)
    with pytest.raises(KeyError):
        tutor.step(next(batches))
    handle.remove()
    for _ in range(2):
        tutor.step(next(batches), next(batches))
    assert len(signal.calls[0][2].steps) == 2


def test_a_forward_pass_that_raises_leaves_no_hook_and_no_random_state() -> None:
    student = build("relu network")
    teacher = InternalState(student, classes=C, tap="1").double()
    tutor = teaching(Unrolled(1), student=student, teacher=teacher)
    batch, before = next(stream()), torch.get_rng_state()
    with pytest.raises(RuntimeError, match="shapes"):
        tutor.step(batch._replace(inputs=batch.inputs[:, :3]), batch)
    assert not any(part._forward_hooks for part in student.modules())
    assert torch.equal(torch.get_rng_state(), before)
    assert tutor.steps == 0
    tutor.step(batch, batch)


# What is refused.


def untaught(**settings: Any) -> Tutor:
    student = build("linear")
    settings = {"teacher": Plain()} | settings
    return Tutor(student, SGD(student.parameters(), lr=0.1), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"signal": Unrolled(1)}, "both signal and teacher_optimizer"),
        ({"teacher_optimizer": SGD([torch.zeros(1)], lr=1)}, "both signal and teacher_opti"),
        (
            {"teacher_optimizer": SGD([torch.zeros(1)], lr=1), "signal": Unrolled(3)},
            "needs a window of 3 steps, but teacher_every is 1: give teacher_every=3 or more",
        ),
        (
            {"teacher": InternalState(nn.Linear(1, 1), classes=C, surface=["progress"])},
            "give total_steps",
        ),
        ({"total_steps": 0}, "total_steps"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        untaught(**settings)


def test_an_optimiser_without_a_rule_is_refused_when_a_signal_needs_it() -> None:
    student, teacher = build("linear"), InputWeigher().double()
    learner = SGD(teacher.parameters(), lr=0.1)
    with pytest.raises(UnsupportedStudentError, match=r"RMSprop.*Use torch\.optim\.SGD"):
        Tutor(
            student,
            torch.optim.RMSprop(student.parameters()),
            teacher,
            learner,
            signal=Unrolled(1),
        )


class Aside(nn.Module):
    """Its forward pass leaves ``never`` out."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(D, C)
        self.never = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


@pytest.mark.parametrize("signal", [Unrolled(1), Reversible(1), Lookahead()])
def test_a_loss_that_reaches_nothing_the_optimiser_moves_is_an_error_with_the_names(
    signal,
) -> None:
    student, teacher = Aside().double(), InputWeigher().double()
    optimizer = SGD(student.never.parameters(), lr=0.1, momentum=0.9)
    learner = SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, learner, signal=signal)
    batch = next(stream())
    with pytest.raises(UnsupportedStudentError, match=r"never\.weight"):
        tutor.step(batch, batch)


class Partly(nn.Module):
    """A frozen body, a head, and a layer that is never reached."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(5, C)
        self.body = nn.Linear(D, 5).requires_grad_(requires_grad=False)
        self.never = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Wholly(Partly):
    """The same function, with the head's parameters alone."""

    weight: Tensor
    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        del self.never
        body = self.body
        del self.body
        self.register_buffer("weight", body.weight.detach())
        self.register_buffer("bias", body.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        return self.head(nn.functional.linear(x, self.weight, self.bias))


SIGNALS = (
    Unrolled(1),
    Replayed(1),
    Reversible(1),
    Lookahead(),
    Implicit(Neumann(1, 0.1)),
)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: type(s).__name__)
def test_frozen_and_unused_parameters_stay_as_they_are_and_change_no_hypergradient(
    signal,
) -> None:
    found = []
    for kind in (Partly, Wholly):
        torch.manual_seed(0)
        module = kind().double()
        torch.manual_seed(1)
        tutor, batches = teaching(signal, student=module), stream()
        start = {k: p.detach().clone() for k, p in module.named_parameters()}
        for _ in range(2):
            tutor.step(next(batches), next(batches))
        for name, p in module.named_parameters():
            assert torch.equal(p, start[name]) is not name.startswith("head")
        found.append([p.detach() for p in tutor.teacher.parameters()])
    for with_them, without in zip(*found, strict=True):
        torch.testing.assert_close(with_them, without, rtol=1e-12, atol=0)


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: type(s).__name__)
def test_batches_without_weight_leave_the_student_alone_and_are_warned_of_once(signal) -> None:
    class Nothing(InputWeigher):
        def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
            return (self.net(prepared.inputs).squeeze(1) - 1e3).relu()

    student, teacher = build("relu network"), Nothing().double()
    optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
    learner = SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, learner, signal=signal)
    before = {k: v.clone() for k, v in student.state_dict().items()}
    batches = stream()
    with pytest.warns(UserWarning, match="carried no weight"):
        tutor.step(next(batches), next(batches))
    for _ in range(2):  # a second warning would be an error
        assert tutor.step(next(batches), next(batches)).loss.item() == 0.0
    assert same(dict(student.state_dict()), before)
    assert tutor.skipped_teacher_steps == 0
    assert all(p.isfinite().all() for p in teacher.parameters())


@pytest.mark.parametrize("part", ["inputs", "targets"])
@pytest.mark.parametrize("place", ["batch", "held_out"])
def test_a_batch_made_under_inference_mode_is_refused_with_the_way_out(place, part) -> None:
    tutor, batch = teaching(Unrolled(1)), next(stream())
    with torch.inference_mode():
        made = batch._replace(**{part: getattr(batch, part).clone()})
    given = {"batch": batch, "held_out": batch} | {place: made}
    with pytest.raises(ValueError, match=rf"{place}.*inference_mode.*torch\.no_grad"):
        tutor.step(**given)
    assert tutor.steps == 0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_step_where_gradients_are_switched_off_is_refused_with_the_way_out(mode) -> None:
    tutor, batch = teaching(Unrolled(1)), next(stream())
    with mode(), pytest.raises(ValueError, match="gradients are switched off"):
        tutor.step(batch, batch)
    tutor.step(batch, batch)


# What a step records.


@pytest.mark.parametrize("teacher", [Plain, LossWeigher, InputWeigher, Shifter])
def test_the_recorded_loss_is_the_reduction_of_the_recorded_losses_and_weights(
    teacher,
) -> None:
    torch.manual_seed(0)
    student, batch = build("relu network"), next(stream())
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), teacher().double())
    record = tutor.step(batch)
    want = weighted_loss(record.losses, record.weights, torch.arange(B), "mean")
    assert torch.equal(record.loss, want)
    assert torch.equal(record.ids, batch.ids)
    assert not any(value.requires_grad for value in record[:3] if value is not None)


def test_the_record_of_a_batch_of_copies_has_a_row_for_each_copy() -> None:
    student, batch = build("relu network"), next(stream())
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), Copies().double())
    record = tutor.step(batch)
    assert torch.equal(record.ids, batch.ids.repeat_interleave(2))
    assert record.losses.shape == record.weights.shape == (2 * B,)
    torch.testing.assert_close(record.loss, record.losses.mean())


class Column(InputWeigher):
    """Gives its weights as a column, as a network with one output does."""

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.net(prepared.inputs).sigmoid()


def test_weights_in_a_column_are_recorded_as_one_per_row() -> None:
    tutor = teaching(Unrolled(1), teacher=Column().double())
    batch = next(stream())
    assert tutor.step(batch, batch).weights.shape == (B,)


def test_progress_counts_steps_and_averages_the_loss_for_teachers_that_use_it() -> None:
    student = build("relu network")
    teacher = InternalState(student, classes=C, surface=("mean_loss",)).double()
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), teacher, total_steps=10)
    batches = stream()
    losses = [tutor.step(next(batches)).loss.item() for _ in range(4)]
    tutor.best_accuracy = 0.5
    assert tutor.progress.fraction == 0.4
    assert tutor.progress.mean_loss == pytest.approx(sum(losses) / 4, rel=1e-15)
    assert tutor.progress.best_accuracy == 0.5


@pytest.mark.parametrize(
    ("teacher", "said"), [(KeepOrDrop(KeepProbability(3)), 1), (LossWeigher(), 0)]
)
def test_a_teacher_that_no_derivative_reaches_is_told_of_once(caplog, teacher, said):
    tutor = teaching(Lookahead(), teacher=teacher.double(), total_steps=9)
    batches, held_out = stream(), stream()
    for _ in range(3):
        tutor.step(next(batches), next(held_out))
    assert caplog.text.count("is zero in every parameter") == said
    assert ("use GradientAlignment or NextStepLoss" in caplog.text) == bool(said)

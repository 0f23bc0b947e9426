"""Clipped and scaled gradients: steps as without a teacher, and the teacher stays exact."""

import copy
from itertools import product

import pytest
import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import SGD

from tests.cases import OPTIMIZERS, STUDENTS, InputWeigher, build, close, stream, watched
from tests.tutoring import same, teaching
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.student import StudentView
from tutelage.signals import Lookahead, Replayed, Reversible, Unrolled
from tutelage.teachers import Plain
from tutelage.training.step_strategy import AmpStep, PlainStep
from tutelage.training.tutor import Tutor

CLIPPED = PlainStep(max_norm=0.3)


def test_clipped_steps_are_those_of_a_plain_loop() -> None:
    student, twin = build("relu network"), build("relu network")
    moved, alone = (SGD(s.parameters(), lr=0.1, momentum=0.9) for s in (student, twin))
    tutor = Tutor(student, moved, Plain(), step_strategy=CLIPPED)
    batches, again = stream(), stream()
    for _ in range(5):
        tutor.step(next(batches))
        batch = next(again)
        alone.zero_grad()
        nn.functional.cross_entropy(twin(batch.inputs), batch.targets).backward()
        norm = nn.utils.clip_grad_norm_(twin.parameters(), 0.3)
        assert float(norm) > 0.3  # or nothing would be tested
        alone.step()
    for a, b in zip(student.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("student", "optimizer"),
    sorted({
        *product(STUDENTS, ("momentum", "adam")),
        *product(("relu network", "batch norm", "frozen and unused"), OPTIMIZERS),
    }),
)
def test_a_clipped_step_taken_again_is_clipped(student, optimizer) -> None:
    module, teacher = build(student), InputWeigher().double()
    learner = OPTIMIZERS[optimizer](module)
    call = watched(module, learner, teacher, steps=3, before=1, step_strategy=CLIPPED)
    problem, _, window, _ = call
    want = Unrolled(3)(*call)
    close(Replayed(3)(*call).grad, want.grad, 1e-11)
    state = window.start
    assert state is not None
    for step in window.steps:
        state = problem.step(state, {}, step)
    close(state.params, window.end.params, 1e-9)  # Adam divides by gradients of next to nothing


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_the_teacher_s_gradient_through_clipping_is_that_of_real_training(optimizer) -> None:
    module, teacher = build("relu network"), InputWeigher().double()
    learner = OPTIMIZERS[optimizer](module)
    problem, teacher_params, window, held_out = watched(
        module, learner, teacher, steps=2, step_strategy=CLIPPED
    )
    got = Unrolled(2)(problem, teacher_params, window, held_out).grad
    direction = {k: torch.randn_like(p) for k, p in teacher_params.items()}

    def judged(size: float) -> float:
        student, moved = build("relu network"), InputWeigher().double()
        moved.load_state_dict({k: v + size * direction[k] for k, v in teacher_params.items()})
        own = OPTIMIZERS[optimizer](student)
        tutor, batches = Tutor(student, own, moved, step_strategy=CLIPPED), stream()
        for _ in range(2):
            tutor.step(next(batches))
        return float(
            problem.held_out_loss(StudentView(student, own).state(), teacher_params, held_out)
        )

    want = (judged(1e-6) - judged(-1e-6)) / 2e-6
    slope = sum(float((got[k] * d).sum()) for k, d in direction.items())
    assert abs(slope - want) <= 1e-6 * abs(want) + 1e-9


@pytest.mark.parametrize("mode", ["online", "restep"])
def test_a_look_ahead_sees_the_clipping(mode) -> None:
    module, teacher = build("relu network"), InputWeigher().double()
    call = watched(module, OPTIMIZERS["adam"](module), teacher, steps=1, step_strategy=CLIPPED)
    close(Lookahead(mode=mode)(*call).grad, Unrolled(1)(*call).grad, 1e-11)


def test_clipped_steps_cannot_be_undone() -> None:
    tutor, batches = teaching(Reversible(1), step_strategy=CLIPPED), stream()
    with pytest.raises(UnsupportedStudentError, match="Use Unrolled or Replayed"):
        tutor.step(next(batches), next(batches))


@pytest.mark.parametrize("mode", ["online", "restep"])
def test_a_scaled_loss_changes_nothing(mode) -> None:
    def run(step_strategy: PlainStep | AmpStep) -> Tutor:
        tutor, batches = teaching(Lookahead(mode=mode), step_strategy=step_strategy), stream()
        for _ in range(3):
            tutor.step(next(batches), next(batches))
        return tutor

    scaled = run(AmpStep(GradScaler("cpu", init_scale=2.0**10), max_norm=0.3))
    plain = run(PlainStep(max_norm=0.3))
    for ours, theirs in ((scaled.student, plain.student), (scaled.teacher, plain.teacher)):
        close(ours.state_dict(), theirs.state_dict(), 1e-9)


@pytest.mark.parametrize("signal", [Lookahead(), Unrolled(2), Reversible(2)])
def test_a_step_that_overflows_is_left_out_with_its_look_and_the_next_one_works(signal) -> None:
    scaler = GradScaler("cpu", init_scale=2.0**10)
    tutor, batches = teaching(signal, step_strategy=AmpStep(scaler)), stream()
    for _ in range(signal.steps - 1):
        tutor.step(next(batches))
    parts = (tutor.student, tutor.teacher)
    before = [copy.deepcopy(part.state_dict()) for part in parts]
    batch = next(batches)
    tutor.step(batch._replace(inputs=batch.inputs * 1e308), next(batches))
    for part, state in zip(parts, before, strict=True):
        assert same(part.state_dict(), state)
    assert (scaler.get_scale(), tutor.skipped_teacher_steps) == (2.0**9, 1)
    for _ in range(signal.steps):
        tutor.step(next(batches), next(batches) if tutor.wants_held_out else None)
    assert tutor.skipped_teacher_steps == 1
    for part, state in zip(parts, before, strict=True):
        assert not same(part.state_dict(), state)


@pytest.mark.parametrize("student", ["relu network", "group norm"])
def test_scaled_training_judged_by_the_next_step_is_the_same_after_a_stop(student) -> None:
    def fresh() -> Tutor:
        scaled = AmpStep(GradScaler("cpu", init_scale=2.0**10))
        return teaching(
            Lookahead(evaluate_on="next"), student=build(student), step_strategy=scaled
        )

    def go(tutor: Tutor, numbers: range) -> None:
        for number in numbers:
            tutor.step(next(stream(number)))

    unbroken, stopped, resumed = fresh(), fresh(), fresh()
    go(unbroken, range(5))
    go(stopped, range(3))
    resumed.load_state_dict(stopped.state_dict())
    go(resumed, range(3, 5))
    assert same(resumed.state_dict(), unbroken.state_dict())


def test_a_norm_of_nothing_is_refused() -> None:
    for norm in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="None does not clip"):
            PlainStep(max_norm=norm)

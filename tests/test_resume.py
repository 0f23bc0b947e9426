"""A run may stop at any step and resumes bit for bit."""

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, lr_scheduler

from tests.cases import C, D, build, stream
from tests.tutoring import same, teaching
from tutelage.signals import Lookahead, Reversible, Signal, Unrolled
from tutelage.teachers import InternalState
from tutelage.training.tutor import Tutor


def resumable(signal: Signal, every: int, seed: int) -> tuple[Tutor, lr_scheduler.LRScheduler]:
    """Everything is drawn from ``seed``, except what the run itself draws."""
    torch.manual_seed(seed)
    student = nn.Sequential(
        nn.Linear(D, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, C)
    )
    teacher = InternalState(
        student, classes=C, tap="3", surface=("mean_loss", "loss"), hidden_layers=1, width=5
    )
    for p in teacher.parameters():
        nn.init.normal_(p, std=0.5)
    optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    learner = Adam(teacher.parameters(), lr=0.05)
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        learner,
        signal=signal,
        teacher_every=every,
        total_steps=20,
        seed=3,
    )
    return tutor, lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=20)


def run(tutor: Tutor, schedule: lr_scheduler.LRScheduler, numbers: range) -> list[Any]:
    records = []
    for number in numbers:
        batch, held_out = next(stream(number)), next(stream(100 + number))
        batch, held_out = (b._replace(inputs=b.inputs.float()) for b in (batch, held_out))
        records.append(tutor.step(batch, held_out if tutor.wants_held_out else None))
        schedule.step()
        if number == 2:
            tutor.best_accuracy = 0.5
    return records


@pytest.mark.parametrize(
    ("signal", "every", "stop"),
    [
        (Unrolled(2), 2, 3),
        (Unrolled(2), 3, 4),
        (Unrolled(2), 3, 5),
        (Reversible(2), 2, 3),
        (Reversible(2), 3, 5),
        (Lookahead(), 3, 5),
        (Lookahead(), 3, 6),
    ],
)
def test_a_run_that_stops_and_resumes_is_bit_equal_to_one_that_does_not(
    signal, every, stop
) -> None:
    unbroken, schedule = resumable(signal, every, seed=0)
    whole = run(unbroken, schedule, range(10))

    first, schedule = resumable(signal, every, seed=0)
    begun = run(first, schedule, range(stop))
    stored = io.BytesIO()
    torch.save({"tutor": first.state_dict(), "schedule": schedule.state_dict()}, stored)
    stored.seek(0)
    loaded = torch.load(stored, weights_only=True)

    second, schedule = resumable(signal, every, seed=1)
    second.load_state_dict(loaded["tutor"])
    schedule.load_state_dict(loaded["schedule"])
    assert second.wants_held_out == first.wants_held_out
    torch.manual_seed(1234)
    begun += run(second, schedule, range(stop, 10))

    assert same(begun, whole)
    assert same(second.state_dict(), unbroken.state_dict())
    assert second.steps == 10
    assert any(record.held_out_loss is not None for record in whole[stop:])


@pytest.mark.filterwarnings("ignore:.*which is a no-op")  # of the meta device
@pytest.mark.parametrize("signal", [Unrolled(2), Lookahead(evaluate_on="next")], ids=str)
def test_what_was_loaded_onto_another_device_moves_to_the_students(signal) -> None:
    tutor, batches = teaching(signal, aggregate=3), stream()
    with torch.device("meta"):
        there = teaching(signal, aggregate=3)
    for _ in range(3):
        tutor.step(next(batches), next(batches))
    there.load_state_dict(tutor.state_dict())
    state = there.state_dict()
    for kept in ("loss_sum", "weightless", "start", "window", "pending", "teacher_updater"):
        assert all(tensor.is_meta for tensor in tensors_in(state[kept])), kept
    assert state["start"] or state["pending"]
    assert state["teacher_updater"]["estimates"]


def test_a_teacher_that_goes_on_with_fewer_looks_a_step_steps_at_once() -> None:
    tutor, second = (teaching(Lookahead(), aggregate=looks) for looks in (4, 2))
    batches = stream()
    for _ in range(2):
        tutor.step(next(batches), next(batches))
    second.load_state_dict(tutor.state_dict())
    before = {k: v.clone() for k, v in second.teacher.state_dict().items()}
    second.step(next(batches), next(batches))
    assert not same(dict(second.teacher.state_dict()), before)


def tensors_in(nest: Any) -> list[Tensor]:
    if isinstance(nest, Tensor):
        return [nest]
    parts = nest.values() if isinstance(nest, dict) else nest
    return [
        tensor
        for part in parts
        if isinstance(part, dict | list | tuple | Tensor)
        for tensor in tensors_in(part)
    ]


def test_the_count_of_skipped_teacher_steps_survives_a_resume() -> None:
    first, second = teaching(Unrolled(1)), teaching(Unrolled(1))
    batch = next(stream())
    first.step(batch, batch._replace(inputs=batch.inputs * float("nan")))
    second.load_state_dict(first.state_dict())
    assert second.skipped_teacher_steps == 1


def test_hooks_do_not_pile_up() -> None:
    student = build("relu network")
    teacher = InternalState(student, classes=C, tap="1").double()
    tutor, batches = teaching(Reversible(2), student=student, teacher=teacher), stream()
    for _ in range(4):
        tutor.step(next(batches), next(batches))
    assert not any(part._forward_hooks for part in student.modules())

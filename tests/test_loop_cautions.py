"""What a tutor says about the data and the length of a loop, and when it is silent."""

import gc
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from tutelage.commentaries import save_commentary
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.losses.probability import Focal
from tutelage.losses.targets import CrossEntropy
from tutelage.signals import Lookahead
from tutelage.teachers import LossWeigher
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

CLASSES, ROWS = 4, 12


def tutor(
    outputs: int = CLASSES,
    objective: Objective = cross_entropy,
    *,
    teacher: LossWeigher | None = None,
    rule: type[Adam | SGD] = Adam,
    **settings: Any,
) -> Tutor:
    torch.manual_seed(0)
    student = nn.Linear(3, outputs)
    teacher = LossWeigher() if teacher is None else teacher
    return Tutor(
        student,
        SGD(student.parameters(), lr=0.01),
        teacher,
        rule(teacher.parameters(), lr=0.01),
        signal=Lookahead(),
        objective=objective,
        **settings,
    )


def batch(number: int, targets: Tensor) -> Batch:
    generator = torch.Generator().manual_seed(number)
    inputs = torch.randn(len(targets), 3, generator=generator)
    return Batch(inputs, targets, torch.arange(len(targets)))


def of_classes(*classes: int) -> Tensor:
    return torch.tensor(classes).repeat(ROWS // len(classes))


def run(taught: Tutor, steps: int, train: Tensor, held_out: Tensor) -> Tutor:
    for number in range(steps):
        taught.step(batch(number, train), batch(-1 - number, held_out))
    return taught


def squared(outputs: Any, targets: Tensor) -> Tensor:
    return (outputs.mean(1) - targets).square()


# Classes.


def test_a_class_that_no_held_out_example_has_is_named_once(caplog) -> None:
    run(tutor(), 60, of_classes(0, 1, 2, 3), of_classes(0, 2))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    expected = "No held-out example of the first 10 teacher steps is of class 1, 3,"
    assert record.getMessage().startswith(expected)
    assert record.getMessage().endswith("of every class, and shuffle their loader.")


def test_a_class_that_comes_after_the_first_comparison_is_none(caplog) -> None:
    taught = tutor()
    run(taught, 9, of_classes(0, 1), of_classes(0, 1))
    run(taught, 1, of_classes(2, 3), of_classes(2, 3))
    assert not caplog.records


def test_a_rare_class_is_not_said_to_be_missing_before_it_could_come(caplog) -> None:
    rare = torch.tensor([3, *[0, 1, 2] * 4])[:ROWS]
    taught = run(tutor(), 9, of_classes(0, 1, 2), of_classes(0, 1, 2))
    run(taught, 1, rare, of_classes(0, 1, 2))  # 1 of 120: less than 10 are expected of 120
    assert not caplog.records
    run(taught, 30, rare, of_classes(0, 1, 2))
    (record,) = caplog.records
    assert "of the first 20 teacher steps is of class 3," in record.getMessage()


@pytest.mark.parametrize(
    ("outputs", "objective", "train", "held_out"),
    [
        (1000, cross_entropy, of_classes(0, 1), of_classes(0, 1)),  # a head of other classes
        (CLASSES, cross_entropy, of_classes(0, 1), of_classes(0, 1, 2)),
        (CLASSES, Focal(2.0), of_classes(0, 1), of_classes(0)),
        (1, squared, of_classes(0, 5), of_classes(3)),  # counts
        (CLASSES, squared, of_classes(0, 2, 3), of_classes(3)),  # as if they were class ids
        (CLASSES, squared, of_classes(0, 2, 7), of_classes(3)),  # no class ids of four
        (CLASSES, squared, of_classes(0, 5).float(), of_classes(3).float()),
        (CLASSES, cross_entropy, torch.eye(CLASSES)[of_classes(0, 1)], of_classes(0)),
        (CLASSES, cross_entropy, of_classes(0, 1), torch.eye(CLASSES)[of_classes(0)]),
    ],
)
def test_labels_of_other_kinds_are_not_compared(
    outputs, objective, train, held_out, caplog
) -> None:
    run(tutor(outputs, objective), 50, train, held_out)
    assert not caplog.records


def test_ignored_labels_are_no_class(caplog) -> None:
    ignoring = CrossEntropy(ignored=(-100,))
    run(tutor(CLASSES, ignoring), 12, torch.tensor([0, 1, -100] * 4), of_classes(0))
    (record,) = caplog.records
    assert "is of class 1," in record.getMessage()


# Channels.


@pytest.mark.parametrize(("channels", "warnings"), [(1, 1), (3, 0)])
def test_held_out_images_of_other_channels_are_named(channels, warnings, caplog) -> None:
    student = nn.Sequential(nn.AdaptiveAvgPool2d(1), Widened(), nn.Linear(3, CLASSES))
    teacher = LossWeigher()
    taught = Tutor(
        student,
        SGD(student.parameters(), lr=0.01),
        teacher,
        Adam(teacher.parameters()),
        signal=Lookahead(),
    )
    labels = of_classes(0, 1, 2, 3)
    for _ in range(3):
        train = Batch(torch.rand(ROWS, 3, 2, 2), labels, torch.arange(ROWS))
        taught.step(train, train._replace(inputs=torch.rand(ROWS, channels, 2, 2)))
    assert len(caplog.records) == warnings
    start = "Held-out images have 1 channel, unlike the training images of 3"
    assert all(record.getMessage().startswith(start) for record in caplog.records)


class Widened(nn.Module):
    """Less the mean of each of three channels, which repeats a single one."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - torch.full((3, 1, 1), 0.5)).flatten(1)


# Length.

EVEN = of_classes(0, 1, 2, 3)


@pytest.mark.parametrize(
    ("total", "every", "aggregate", "taken"),
    [(240, 5, 1, 48), (100, 1, 4, 25), (250, 5, 1, None), (49, 1, 1, None), (49, 5, 1, None)],
)
def test_a_stated_length_with_few_teacher_steps_is_named_at_the_first_step(
    total, every, aggregate, taken, caplog
) -> None:
    taught = tutor(total_steps=total, teacher_every=every, aggregate=aggregate)
    run(taught, 3, EVEN, EVEN)
    found = [record.getMessage() for record in caplog.records]
    if taken is None:
        assert not found
    else:
        assert len(found) == 1
        assert f"takes {taken} steps only in {total} student steps" in found[0]


@pytest.mark.parametrize("rule", [Adam, SGD])
@pytest.mark.parametrize(
    ("steps", "every", "taken"), [(60, 5, 12), (60, 1, None), (12, 5, None), (60, 70, 0)]
)
def test_a_teacher_of_few_steps_is_named_when_it_is_saved(
    steps, every, taken, rule, tmp_path: Path, caplog
) -> None:
    taught = run(tutor(teacher_every=every, rule=rule), steps, EVEN, EVEN)
    for _ in range(2):  # it is said once
        save_commentary(taught.teacher, tmp_path / "saved", overwrite=True)
    found = [record.getMessage() for record in caplog.records]
    if taken is None:
        assert not found
    else:
        (line,) = found
        assert line.startswith(f"LossWeigher has taken {taken} steps only, below 50")


@pytest.mark.parametrize(("students", "taken"), [(1, 30), (6, None)])
def test_steps_with_all_students_count(students, taken, tmp_path: Path, caplog) -> None:
    teacher = LossWeigher()
    for _ in range(students):
        run(tutor(teacher=teacher, teacher_every=2), 60, EVEN, EVEN)
    save_commentary(teacher, tmp_path / "saved")
    starts = [record.getMessage().split(" steps")[0] for record in caplog.records]
    assert starts == ([] if taken is None else [f"LossWeigher has taken {taken}"])


def test_steps_that_are_left_out_do_not_count(tmp_path: Path, caplog) -> None:
    taught = tutor()
    nan = torch.full((ROWS, 3), torch.nan)
    for number in range(60):
        taught.step(batch(number, EVEN), batch(-number, EVEN)._replace(inputs=nan))
    assert taught.skipped_teacher_steps == 60
    save_commentary(taught.teacher, tmp_path / "saved")
    assert caplog.messages[-1].startswith("LossWeigher has taken 0 steps only")


def test_a_stated_length_adds_to_the_steps_with_students_before(caplog) -> None:
    teacher = LossWeigher()
    run(tutor(teacher=teacher), 30, EVEN, EVEN)
    run(tutor(teacher=teacher, teacher_every=3, total_steps=60), 3, EVEN, EVEN)
    assert not caplog.records


def test_a_state_without_the_number_of_steps_is_that_of_enough(tmp_path, caplog) -> None:
    state = run(tutor(teacher_every=5), 60, EVEN, EVEN).state_dict()
    del state["teacher_updater"]["taken"]
    resumed = tutor(teacher_every=5)
    resumed.load_state_dict(state)
    run(resumed, 10, EVEN, EVEN)
    save_commentary(resumed.teacher, tmp_path / "saved")
    assert not caplog.records


def test_steps_before_a_resume_count(tmp_path: Path, caplog) -> None:
    state = run(tutor(teacher_every=2), 100, EVEN, EVEN).state_dict()
    resumed = tutor(teacher_every=2)
    resumed.load_state_dict(state)
    run(resumed, 2, EVEN, EVEN)
    save_commentary(resumed.teacher, tmp_path / "saved")
    assert not caplog.records


def test_nothing_is_said_without_cautions_or_kept_alive_by_them(tmp_path, caplog) -> None:
    taught = tutor(teacher_every=5, total_steps=60)
    taught.cautions = None
    run(taught, 60, of_classes(0, 1, 2, 3), of_classes(0))
    save_commentary(taught.teacher, tmp_path / "saved")
    assert not caplog.records
    taught = run(tutor(), 50, EVEN, EVEN)
    teacher_id = id(taught.teacher)
    del taught
    gc.collect()
    alive = (m for m in gc.get_objects() if isinstance(m, LossWeigher))
    assert teacher_id not in map(id, alive)

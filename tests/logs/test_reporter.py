"""A reporter tells every few steps how a tutor fares, and changes nothing about them."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch.optim import SGD
from torch.utils._python_dispatch import TorchDispatchMode

from tests.cases import build, stream
from tests.tutoring import same, teaching
from tutelage.bilevel import BilevelProblem
from tutelage.logs import Reporter, weight_numbers
from tutelage.signals import Lookahead, Unrolled
from tutelage.teachers import Plain
from tutelage.training.forward import StepResult
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Params, Window
from tutelage_cli.train.student_training import LOGGED_KEYS


class Kept:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[int, dict[str, float]] = {}
        self.closed = False

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        self.told[step] = {**self.told.get(step, {}), **numbers}

    def close(self) -> None:
        self.closed = True


class NeverFinite(Unrolled):
    """A signal whose gradient cannot be followed."""

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        found = super().__call__(problem, teacher_params, window, held_out)
        return found._replace(grad={k: g * torch.nan for k, g in found.grad.items()})


class Waits(TorchDispatchMode):
    """Counts how often a number is taken out of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def plain() -> Tutor:
    student = build("relu network")
    return Tutor(student, SGD(student.parameters(), lr=0.1), Plain())


def steps(tutor: Tutor, count: int, *reporters: Reporter) -> list[StepResult]:
    """Steps of a tutor, of which reporters are told."""
    batches, records = stream(), []
    for _ in range(count):
        held_out = next(batches) if tutor.wants_held_out else None
        records.append(tutor.step(next(batches), held_out))
        for report in reporters:
            report(records[-1])
    return records


def followed(tutor: Tutor, count: int, log: Kept, every: int) -> list[StepResult]:
    with Reporter(tutor, log, every=every) as report:
        return steps(tutor, count, report)


def test_every_few_steps_are_told_as_their_records_have_them():
    log, tutor = Kept(), plain()
    records = followed(tutor, 7, log, every=3)
    assert list(log.told) == [3, 6]
    for step, told in log.told.items():
        record = records[step - 1]
        right = {
            "student/loss": record.loss,
            "student/unweighted_loss": record.losses.mean(),
        } | {f"weights/{k}": x for k, x in weight_numbers(record.weights).items()}
        assert told == pytest.approx({k: float(x) for k, x in right.items()}, rel=1e-6)


def test_the_norm_is_that_of_the_gradient_that_moved_the_teacher():
    log, tutor = Kept(), teaching(Unrolled(2), every=2)
    before = [p.detach().clone() for p in tutor.teacher.parameters()]
    followed(tutor, 2, log, every=2)
    moved = [b - p.detach() for b, p in zip(before, tutor.teacher.parameters(), strict=True)]
    norm = torch.cat([x.flatten() for x in moved]).norm() / 0.1  # the rate of plain SGD
    assert log.told[2]["teacher/hypergradient_norm"] == pytest.approx(float(norm), rel=1e-5)


def test_the_last_held_out_loss_is_told_until_there_is_another():
    log, tutor = Kept(), teaching(Lookahead(), every=3)
    records = followed(tutor, 7, log, every=1)
    looked = {3: records[2].held_out_loss, 6: records[5].held_out_loss}
    for step, told in log.told.items():
        last = looked.get(step - step % 3)
        assert ("teacher/held_out_loss" in told) == ("teacher/hypergradient_norm" in told)
        if last is None:
            assert "teacher/held_out_loss" not in told
        else:
            assert told["teacher/held_out_loss"] == pytest.approx(float(last), rel=1e-6)


def test_skipped_teacher_steps_are_counted():
    log = Kept()
    followed(teaching(NeverFinite(1)), 3, log, every=1)
    assert [told["teacher/skipped_steps"] for told in log.told.values()] == [1, 2, 3]
    assert "teacher/hypergradient_norm" not in log.told[3]


def test_where_weights_sum_to_nothing_their_entropy_is_left_out():
    tutor = plain()
    (record,) = steps(tutor, 1)
    found = Reporter(tutor, Kept()).numbers(
        record._replace(weights=torch.zeros_like(record.weights))
    )
    assert "weights/entropy" not in found
    assert found["weights/effective_size"] == 0


def test_training_is_the_same_to_the_bit():
    watched, alone = (teaching(Unrolled(2), every=2) for _ in range(2))
    followed(watched, 6, Kept(), every=1)
    steps(alone, 6)
    assert same(watched.state_dict(), alone.state_dict())


def test_between_two_steps_that_are_told_nothing_is_waited_for():
    bare, seen = Waits(), Waits()
    with bare:
        steps(teaching(Lookahead()), 3)
    log, tutor = Kept(), teaching(Lookahead())
    with seen:
        steps(tutor, 3, Reporter(tutor, log, every=100))
    assert log.told == {}
    assert bare.count > 0
    assert seen.count == bare.count


def test_a_process_without_logs_looks_at_nothing():
    tutor = teaching(Lookahead())
    report = Reporter(tutor, every=1)
    (record,) = steps(tutor, 1, report)
    assert "teacher/hypergradient_norm" not in report.numbers(record)


def test_logs_are_closed_and_the_teacher_is_looked_at_no_longer():
    log, tutor = Kept(), teaching(Lookahead())
    with Reporter(tutor, log, every=1) as report:
        pass
    assert log.closed
    steps(tutor, 1, report)
    assert "teacher/hypergradient_norm" not in log.told[1]


def test_steps_between_two_that_are_told_are_one_and_more():
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        Reporter(plain(), Kept(), every=0)


def test_other_numbers_are_told_at_the_step_just_taken():
    log, tutor = Kept(), plain()
    report = Reporter(tutor, log, every=10)
    steps(tutor, 4)
    report.log({"held_out_accuracy": 0.5})
    assert log.told == {4: {"held_out_accuracy": 0.5}}


def test_the_page_lists_what_is_told():
    page = (Path(__file__).parents[2] / "docs" / "logging.md").read_text(encoding="utf-8")
    table = page.partition("## Names")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`((?:student|teacher|weights|epoch)/\w+)`", table))
    log, tutor = Kept(), teaching(Lookahead())
    (record,) = followed(tutor, 1, log, every=1)
    half = record._replace(left_out=torch.tensor(0.5))
    told = {*log.told[1], *Reporter(tutor, Kept()).numbers(half)}
    assert listed == told | {f"epoch/{name}" for name in LOGGED_KEYS}

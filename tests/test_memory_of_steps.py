"""What a teacher remembers is renewed by real steps alone and returns with steps and runs."""

import io
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from papers.few_shot import Episode, evaluate_start
from tests.cases import B, C, InputWeigher, build, stream
from tests.tutoring import same, teaching
from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.student import StudentView
from tutelage.signals import Lookahead, Replayed, Reversible, Score, Signal, Unrolled
from tutelage.teachers import CombinedTeacher, KeepOrDrop, MentorNetDD, PermutationControl
from tutelage.teachers.loss_percentile import LossPercentile
from tutelage.training.loops import episodic
from tutelage.training.teacher_buffers import memory_of
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared


class Counting(nn.Module):
    """Weighs by a learned input weight and by how many steps it remembers."""

    memory: ClassVar = ("count",)

    def __init__(self) -> None:
        super().__init__()
        self.inner = InputWeigher()
        self.count: Tensor
        self.register_buffer("count", torch.zeros(()))

    def weigh(self, prepared, observation) -> Tensor:
        return self.inner.weigh(prepared, observation) / (1 + self.count)

    def remember(self, prepared, observation):  # noqa: ARG002 - the interface
        assert not observation.losses.requires_grad
        return {"count": self.count + 1}


SIGNALS = [
    *(Unrolled(2), Reversible(2), Replayed(2)),
    *(Lookahead(), Lookahead(mode="restep"), Lookahead(evaluate_on="next")),
]


@pytest.mark.parametrize("signal", SIGNALS, ids=str)
def test_every_real_step_is_remembered_once_and_looks_are_not(signal) -> None:
    teacher = Counting().double()
    tutor, batches = teaching(signal, teacher=teacher), stream()
    for number in range(4):
        assert teacher.count == number
        tutor.step(next(batches), next(batches))


def test_steps_without_the_teacher_are_not_remembered() -> None:
    teacher = Counting().double()
    tutor = teaching(Lookahead(evaluate_on="plain"), every=2, teacher=teacher)
    batches = stream()
    for _ in range(4):
        tutor.step(next(batches))
    assert teacher.count == 2


def test_the_memory_of_parts_is_found_by_their_names() -> None:
    wrapped = {
        "keeps.count": KeepOrDrop(Counting()),
        "learned.count": PermutationControl(Counting()),
        "weighs.count": CombinedTeacher(nn_prepares(), Counting()),
        "average.level": MentorNetDD(C),
    }
    for name, teacher in wrapped.items():
        assert list(memory_of(teacher)) == [name]


def nn_prepares() -> nn.Module:
    class Nothing(nn.Module):
        def prepare(self, batch):
            return as_prepared(batch)

    return Nothing()


def test_weights_are_those_of_the_step_that_they_are_asked_for() -> None:
    teacher, batch = Counting().double(), next(stream())
    student = build("relu network")
    problem = BilevelProblem(
        StudentView(student, SGD(student.parameters(), lr=0.1)), teacher, torch.add
    )
    losses = torch.ones(B, dtype=torch.float64)
    prepared = as_prepared(batch)
    teacher.count.fill_(5)

    def weights(count: float) -> Tensor:
        progress = Progress(memory={"count": torch.tensor(count, dtype=torch.float64)})
        seen = Observation(losses, losses.unsqueeze(1), {}, progress)
        return problem.weights({}, prepared, seen, 0)

    torch.testing.assert_close(weights(0.0), 2 * weights(1.0))
    now = Observation(losses, losses.unsqueeze(1), {}, Progress())
    torch.testing.assert_close(problem.weights({}, prepared, now, 0), weights(5.0))
    assert teacher.count == 5


def remembering(signal: Signal, every: int) -> Tutor:
    torch.manual_seed(0)
    return teaching(
        signal,
        every=every,
        student=build("dropout"),
        teacher=MentorNetDD(C, burn_in=0.2).double(),
        total_steps=20,
    )


@pytest.mark.parametrize("stop", [3, 5])
@pytest.mark.parametrize("signal", SIGNALS, ids=str)
def test_a_stopped_run_goes_on_bit_for_bit(signal, stop) -> None:
    def run(tutor: Tutor, numbers: range) -> list[Any]:
        return [
            list(
                tutor.step(
                    next(stream(n)), next(stream(100 + n)) if tutor.wants_held_out else None
                )
            )
            for n in numbers
        ]

    unbroken = remembering(signal, 3)
    whole = run(unbroken, range(10))
    first, second = remembering(signal, 3), remembering(signal, 3)
    begun = run(first, range(stop))
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second.load_state_dict(torch.load(stored, weights_only=True))
    assert same(begun + run(second, range(stop, 10)), whole)
    assert same(second.state_dict(), unbroken.state_dict())


def test_whole_runs_refuse_a_teacher_that_remembers() -> None:
    teacher, student = Counting().double(), build("relu network")
    rule = SGD(student.parameters(), lr=0.1)
    learner = SGD(teacher.parameters(), lr=0.1)
    batch = next(stream())
    found = episodic(
        lambda _: (student, rule),
        teacher,
        learner,
        lambda _: [batch],
        lambda _: batch,
        signal=Unrolled(1),
    )
    with pytest.raises(UsageError, match=r"Counting remembers earlier steps \(count\).*Tutor"):
        next(found)
    problem = BilevelProblem(
        StudentView(student, rule), teacher, nn.CrossEntropyLoss(reduction="none")
    )
    with pytest.raises(UsageError, match="Counting remembers"):
        evaluate_start(
            problem,
            Episode(batch, batch, torch.zeros(B, dtype=torch.bool)),
            Unrolled(1),
            1,
            seed=0,
        )


def test_a_sampler_that_remembers_is_rewarded_inside_another_teacher() -> None:
    class Weighs(nn.Module):
        normalise = "mean"

        def __init__(self) -> None:
            super().__init__()
            self.average = LossPercentile(percentile=0.5, decay=0.5)
            self.level = nn.Parameter(torch.zeros(()))

        def weigh(self, _prepared: PreparedBatch, seen: Observation) -> Tensor:
            return (self.level + seen.losses - self.average(seen.losses)).sigmoid()

    class Shows(nn.Module):
        def prepare(self, batch: Batch) -> PreparedBatch:
            return as_prepared(batch)

    found = []
    for wrap in (lambda t: t, lambda t: CombinedTeacher(Shows(), t)):
        torch.manual_seed(0)
        student, weighs = nn.Linear(3, 2), Weighs()
        teacher = wrap(KeepOrDrop(weighs))
        tutor = Tutor(
            student,
            torch.optim.SGD(student.parameters(), 0.1),
            teacher,
            torch.optim.SGD(teacher.parameters(), 0.1),
            signal=Score(),
            total_steps=9,
        )
        for seed in range(3):
            batch = Batch(torch.randn(8, 3), torch.randint(0, 2, (8,)), torch.arange(8), seed)
            tutor.step(batch, batch)
        found.append(weighs.level.item())
    assert found[0] == found[1] != 0

"""Real steps renew the buffers of student and teacher, once each; nothing else does."""

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.awkward import B, Body, D, plain
from tests.tutoring import same
from tutelage.errors import InexactWindowError, UsageError
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
from tutelage.teachers import CombinedTeacher, KeepOrDrop, PermutationControl, Plain
from tutelage.training.forward import prediction_batch
from tutelage.training.loops import Episode, episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch, as_prepared

F64 = torch.float64


class Counting(Body):
    """Whose output depends on a buffer and on a plain number that count its passes."""

    def __init__(self, *, number: bool = False) -> None:
        super().__init__()
        self.n: Tensor
        self.register_buffer("n", torch.zeros((), dtype=F64))
        self.number = 0 if number else None

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        self.n += 1
        if self.number is not None:
            self.number += 1
        return h / (self.n + (self.number or 0))


class Spectral(Body):
    def __init__(self) -> None:
        super().__init__()
        nn.utils.parametrizations.spectral_norm(self.below)


class Replacing(Counting):
    """Puts another tensor in the buffer's place."""

    def mixed(self, h: Tensor, x: Tensor) -> Tensor:  # noqa: ARG002
        self.n = self.n + 1
        return h / self.n


class ByExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.linspace(-1, 1, B, dtype=F64))

    def weigh(self, prepared: PreparedBatch, observation) -> Tensor:  # noqa: ARG002 - the interface
        return self.phi[prepared.ids].sigmoid()


class Attached(ByExample):
    attached = True


class Renews(ByExample):
    """Weighs by how often it has prepared and weighed before."""

    def __init__(self, *, attached: bool = False) -> None:
        super().__init__()
        self.attached = attached
        self.weighed: Tensor
        self.prepared: Tensor
        self.register_buffer("weighed", torch.zeros((), dtype=F64))
        self.register_buffer("prepared", torch.zeros((), dtype=F64))

    def prepare(self, batch: Batch) -> PreparedBatch:
        self.prepared += 1
        return as_prepared(batch)._replace(inputs=batch.inputs * (1 + 0.1 * self.prepared))

    def weigh(self, prepared: PreparedBatch, observation) -> Tensor:
        self.weighed = self.weighed + 1
        own = super().weigh(prepared, observation) ** (self.weighed * self.prepared).sqrt()
        return own * (1 + observation.losses.square()) if self.attached else own


class Standardising(ByExample):
    """Batch normalisation within a teacher."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double()

    def weigh(self, prepared: PreparedBatch, observation) -> Tensor:  # noqa: ARG002
        return self.net(prepared.inputs).sigmoid().squeeze(1)


class Dropping(Plain):
    drop_below: float = 0.3


def rows_of(step: int) -> Batch:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(B, D, generator=generator, dtype=F64)
    return Batch(x, torch.arange(B) % 3, torch.arange(B))


def tutor_of(student: nn.Module, teacher: nn.Module, signal: Any, **settings: Any) -> Tutor:
    own = None if signal is None else SGD(teacher.parameters(), lr=1.0)
    optimizer = SGD(student.parameters(), lr=0.3, momentum=0.9)
    if signal is not None:
        settings = {"teacher_every": signal.steps} | settings
    return Tutor(student, optimizer, teacher, own, signal=signal, **settings)


def fresh(kind: type[nn.Module], **settings: Any) -> nn.Module:
    torch.manual_seed(0)
    return kind(**settings).double()


def stepped(tutor: Tutor, steps: int, first: int = 0) -> Tutor:
    for step in range(first, first + steps):
        tutor.step(rows_of(step), rows_of(100 + step))
    return tutor


MODES: dict[str, tuple[type[nn.Module], Signal | None, dict[str, Any]]] = {
    "whole": (Plain, None, {}),
    "parts of all rows": (Plain, None, {"micro_batch": B}),
    "lighter": (Dropping, None, {}),
    "attached": (Attached, Lookahead(), {}),
    "restep": (ByExample, Lookahead(mode="restep"), {}),
    "virtual": (ByExample, Lookahead(mode="virtual"), {}),
    "next": (ByExample, Lookahead(evaluate_on="next"), {}),
    "plain between": (ByExample, Lookahead(evaluate_on="plain"), {"teacher_every": 2}),
    "aggregate": (ByExample, Lookahead(), {"aggregate": 3}),
    "parts under a signal": (ByExample, Unrolled(2), {"micro_batch": B}),
    "unrolled": (ByExample, Unrolled(2), {}),
    "reversible": (ByExample, Reversible(2), {}),
    "replayed": (ByExample, Replayed(2), {}),
}


@pytest.mark.parametrize("kind", [Counting, Replacing])
@pytest.mark.parametrize("mode", MODES)
def test_a_students_buffers_are_renewed_once_a_step(mode, kind) -> None:
    teacher, signal, settings = MODES[mode]
    student = fresh(kind)
    tutor = tutor_of(student, teacher(), signal, **settings)
    if mode == "reversible":  # undone steps see the buffers of the window's end, which matters
        with pytest.raises(InexactWindowError, match="use Replayed"):
            stepped(tutor, 2)
        assert float(student.get_buffer("n")) == 2
        return
    stepped(tutor, 4)
    assert float(student.get_buffer("n")) == 4


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(Counting, {}), (Replacing, {}), (Spectral, {}), (Counting, {"number": True})],
)
def test_one_part_of_all_rows_is_the_whole_batch_bit_for_bit(kind, settings) -> None:
    whole, part = fresh(kind, **settings), fresh(kind, **settings)
    stepped(tutor_of(whole, Plain(), None), 3)
    stepped(tutor_of(part, Plain(), None, micro_batch=B), 3)
    torch.testing.assert_close(part.state_dict(), whole.state_dict(), rtol=1e-12, atol=0)
    assert getattr(part, "number", None) == getattr(whole, "number", None)


def test_each_part_sees_the_buffers_that_the_part_before_it_left() -> None:
    student, alone = fresh(Counting), fresh(Counting)
    stepped(tutor_of(student, Plain(), None, micro_batch=3), 3)
    optimizer = SGD(alone.parameters(), lr=0.3, momentum=0.9)
    for step in range(3):
        x, y, *_ = rows_of(step)
        optimizer.zero_grad()
        for rows in (slice(0, 3), slice(3, 6), slice(6, B)):
            (plain(alone(x[rows]), y[rows]).sum() / B).backward()
        optimizer.step()
    torch.testing.assert_close(student.state_dict(), alone.state_dict(), rtol=1e-12, atol=0)


def test_a_lighter_step_gives_the_gradient_of_the_student_of_that_step() -> None:
    whole, lighter = fresh(Counting), fresh(Counting)
    teacher = Dropping()
    teacher.drop_below = 1e-12  # which drops none
    stepped(tutor_of(whole, Plain(), None), 3)
    stepped(tutor_of(lighter, teacher, None), 3)
    torch.testing.assert_close(lighter.state_dict(), whole.state_dict(), rtol=1e-9, atol=1e-12)


def test_a_buffer_stays_the_very_tensor_that_it_was() -> None:
    student = fresh(Counting)
    buffer = student.get_buffer("n")
    stepped(tutor_of(student, Plain(), None, micro_batch=4), 2)
    assert student.get_buffer("n") is buffer
    assert float(buffer) == 4  # two parts a step


SIGNALS = [
    *(None, Unrolled(2), Reversible(2), Replayed(2), Lookahead()),
    *(Lookahead(mode="restep"), Lookahead(evaluate_on="next"), Lookahead(evaluate_on="plain")),
]


@pytest.mark.parametrize("signal", SIGNALS, ids=str)
@pytest.mark.parametrize("attached", [False, True])
def test_a_teachers_buffers_are_renewed_once_by_each_step_that_it_teaches(
    signal, attached
) -> None:
    teacher = Renews(attached=attached)
    untaught_between = getattr(signal, "evaluate_on", "") == "plain"
    settings = {"teacher_every": 2} if untaught_between else {}
    tutor = stepped(tutor_of(fresh(Body), teacher, signal, **settings), 4)
    taught = 2 if untaught_between else 4
    assert float(teacher.weighed) == float(teacher.prepared) == taught
    prediction_batch(tutor.problem, rows_of(0))
    assert float(teacher.prepared) == taught


@pytest.mark.parametrize("signal", [GradientAlignment(), NextStepLoss(normalise="none")])
def test_so_are_those_of_a_teacher_within_another(signal) -> None:
    inner = Renews()
    stepped(tutor_of(fresh(Body), KeepOrDrop(inner), signal), 4)
    assert float(inner.weighed) == 4
    stepped(tutor_of(fresh(Body), PermutationControl(inner), None), 3)
    assert float(inner.weighed) == 7


def test_batch_normalisation_in_a_teacher_learns_its_statistics() -> None:
    teacher, twin = Standardising(), Standardising()
    twin.load_state_dict(teacher.state_dict())
    stepped(tutor_of(fresh(Body), teacher, None), 3)
    for step in range(3):
        twin.net(rows_of(step).inputs)
    assert same(dict(teacher.state_dict()), dict(twin.state_dict()))
    assert int(teacher.net.get_buffer("1.num_batches_tracked")) == 3


def exact_gradient(attached: bool, steps: int) -> Tensor:
    """Central differences of the held-out loss over real steps, taken by hand."""

    def after(phi: Tensor) -> float:
        student = fresh(Body)
        optimizer = SGD(student.parameters(), lr=0.3, momentum=0.9)
        for step in range(steps):
            number, (x, y, *_) = step + 1.0, rows_of(step)
            losses = plain(student(x * (1 + 0.1 * number)), y)
            weights = phi.sigmoid() ** number
            weights = weights * (1 + losses.square()) if attached else weights
            optimizer.zero_grad()
            ((weights * losses).sum() / weights.sum()).backward()
            optimizer.step()
        judge = rows_of(100 + steps - 1)
        return float(plain(student(judge.inputs), judge.targets).mean().detach())

    phi, size = ByExample().phi.detach(), 1e-5
    found = [(after(phi + size * d) - after(phi - size * d)) for d in torch.eye(B, dtype=F64)]
    return torch.tensor(found, dtype=F64) / (2 * size)


@pytest.mark.parametrize("signal", [Unrolled(3), Reversible(3), Replayed(3)], ids=str)
@pytest.mark.parametrize("attached", [False, True])
def test_steps_taken_again_see_the_teachers_buffers_as_they_were(signal, attached) -> None:
    teacher = Renews(attached=attached)
    stepped(tutor_of(fresh(Body), teacher, signal), 3)
    found = ByExample().phi.detach() - teacher.phi.detach()
    expected = exact_gradient(attached, 3)
    assert float((found - expected).norm() / expected.norm()) < 1e-7


@pytest.mark.parametrize(
    "signal", [Unrolled(3), Lookahead(), Lookahead(evaluate_on="next")], ids=str
)
def test_a_stopped_run_goes_on_bit_for_bit(signal) -> None:
    unbroken = stepped(tutor_of(fresh(Body), Renews(), signal), 6)
    stopped, file = stepped(tutor_of(fresh(Body), Renews(), signal), 4), io.BytesIO()
    torch.save(stopped.state_dict(), file)
    file.seek(0)
    resumed = tutor_of(fresh(Body), Renews(), signal)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    stepped(resumed, 2, first=4)
    assert same(dict(resumed.teacher.state_dict()), dict(unbroken.teacher.state_dict()))
    assert same(dict(resumed.student.state_dict()), dict(unbroken.student.state_dict()))


def test_whole_runs_renew_the_students_buffers_in_their_own_states_alone() -> None:
    students: list[nn.Module] = []

    def make_student(_: int) -> tuple[nn.Module, SGD]:
        students.append(fresh(Counting))
        return students[-1], SGD(students[-1].parameters(), lr=0.3)

    teacher = ByExample()
    runs = episodic(
        *(make_student, teacher, SGD(teacher.parameters(), lr=1.0)),
        *(lambda _: [rows_of(step) for step in range(3)], lambda _: rows_of(100)),
        signal=Replayed(3),
        objective=plain,
    )
    episode = next(runs)
    assert float(episode.student.buffers["n"]) == 3
    assert float(students[0].get_buffer("n")) == 0


def test_buffers_that_are_not_written_to_are_kept_once_for_all_steps() -> None:
    class Table(ByExample):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.rand(100, dtype=F64))

    tutor = tutor_of(fresh(Body), Table(), Unrolled(4))
    stepped(tutor, 3)
    kept = [step.batch.teacher_buffers for step in tutor._window.steps]
    assert len(kept) == 3
    assert len({buffers["table"].data_ptr() for buffers in kept if buffers}) == 1
    assert copy.deepcopy(tutor.teacher.state_dict()).keys() == {"phi", "table"}


class Shown(ByExample):
    """Weighs by a table of many examples, and keeps where the table lay."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Tensor
        self.register_buffer("table", torch.linspace(0, 1, 100, dtype=F64))
        self.places: set[int] = set()

    def weigh(self, prepared: PreparedBatch, observation) -> Tensor:
        self.places.add(self.table.data_ptr())
        return super().weigh(prepared, observation) * (1 + self.table[prepared.ids])


class Constant(Shown):
    constant_buffers = ("table",)


@pytest.mark.parametrize("signal", [Unrolled(2), Replayed(2), Lookahead()], ids=str)
def test_constant_buffers_are_not_copied_and_give_the_same_gradients(signal) -> None:
    copied, constant = Shown(), Constant()
    ends = []
    for teacher in (copied, constant):
        tutor = tutor_of(fresh(Body), CombinedTeacher(Renews(), teacher), signal)
        stepped(tutor, 2)
        teacher.places.clear()  # a hook's first call gets a copy
        ends.append(stepped(tutor, 2, 2).state_dict())
    assert same(ends[0]["student"], ends[1]["student"])
    assert same(ends[0]["teacher"], ends[1]["teacher"])
    assert constant.places == {constant.table.data_ptr()}
    assert copied.table.data_ptr() not in copied.places


@pytest.mark.parametrize("hook", ["prepare", "weigh"])
def test_a_hook_that_writes_to_a_constant_buffer_is_refused(hook) -> None:
    name = {"prepare": "prepared", "weigh": "weighed"}[hook]

    class Writes(Renews):
        constant_buffers = (name,)

    teacher = Writes()
    before = teacher.get_buffer(name).clone()
    tutor = tutor_of(fresh(Body), teacher, Unrolled(2))
    with pytest.raises(UsageError, match=f"Writes.{hook} writes to the buffer {name}, which"):
        stepped(tutor, 1)
    assert torch.equal(teacher.get_buffer(name), before)


def made(_: int) -> tuple[nn.Module, SGD]:
    student = fresh(Body)
    return student, SGD(student.parameters(), lr=0.1, momentum=0.9)


def first_run(teacher: nn.Module, batches: list[Batch], signal: TrajectorySignal) -> Episode:
    own = SGD(teacher.parameters(), lr=1.0)
    return next(
        episodic(made, teacher, own, lambda _: batches, lambda _: rows_of(9), signal=signal)
    )


RUN = [rows_of(step) for step in range(3)]


@pytest.mark.parametrize(
    "signal", [Unrolled(3), Replayed(3), Reversible(3, exact=True)], ids=repr
)
def test_whole_runs_refuse_a_teacher_that_counts_on_renewed_buffers(signal) -> None:
    with pytest.raises(UsageError, match=r"Renews writes .*\(prepared, weighed\).*whole runs"):
        first_run(Renews(), RUN, signal)
    assert not first_run(Standardising(), RUN, signal).skipped


@pytest.mark.parametrize("what", ["ids", "inputs"])
def test_whole_runs_check_their_batches(what) -> None:
    good = rows_of(1)
    bad = {
        "ids": good._replace(ids=good.ids[:, None]),
        "inputs": good._replace(inputs=good.inputs[:2]),
    }[what]
    with pytest.raises(UsageError, match=r"batch(\.ids are| has 2 rows of inputs)"):
        first_run(ByExample(), [good, bad], Unrolled(2))

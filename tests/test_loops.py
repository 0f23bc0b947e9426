"""Whole-run and alternating learning of a commentary."""

import gc
import itertools

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from tests.cases import B, C, D, InputWeigher, build, stream
from tutelage.signals import Implicit, Neumann, Replayed, Reversible, Unrolled
from tutelage.teachers import Curriculum, LossWeigher
from tutelage.training.loops import alternating, episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

STEPS = 12


def make_student(_: int):
    module = build("relu network")
    return module, Adam(module.parameters(), lr=0.02)


def make_momentum(_: int):
    module = build("relu network")
    return module, SGD(module.parameters(), lr=0.1, momentum=0.9)


def batches(number: int) -> list[Batch]:
    return list(itertools.islice(stream(number), STEPS))


def held_out(number: int) -> Batch:
    return next(stream(1000 + number))


def live_tensors() -> int:
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def run(signal, make, episodes: int = 3):
    torch.manual_seed(1)
    teacher = InputWeigher().double()
    learner = Adam(teacher.parameters(), lr=0.05)
    found = episodic(make, teacher, learner, batches, held_out, signal=signal)
    records = list(itertools.islice(found, episodes))
    return teacher, records


@pytest.mark.parametrize("memory", ["sqrt", "log", 4])
def test_whole_runs_with_adam_learn_the_same_unrolled_and_replayed(memory) -> None:
    want, kept = run(Unrolled(STEPS), make_student)
    got, again = run(Replayed(STEPS, memory), make_student)
    for a, b in zip(got.parameters(), want.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)
    for one, other in zip(again, kept, strict=True):
        torch.testing.assert_close(one.held_out_loss, other.held_out_loss)


@pytest.mark.parametrize("exact", [False, True])
def test_whole_runs_with_momentum_learn_the_same_unrolled_and_reversed(exact) -> None:
    want, _ = run(Unrolled(STEPS), make_momentum)
    got, records = run(Reversible(STEPS, exact=exact), make_momentum)
    for a, b in zip(got.parameters(), want.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
    assert ("bits" in records[0].facts) is exact


def test_the_students_of_an_episode_are_trained_as_by_torch() -> None:
    torch.manual_seed(1)
    teacher = InputWeigher().double()
    learner = SGD(teacher.parameters(), lr=0.0)
    found = episodic(make_student, teacher, learner, batches, held_out, signal=Unrolled(STEPS))
    end = next(found).student
    module, optimizer = make_student(0)
    tutor = Tutor(module, optimizer, teacher)
    for batch in batches(0):
        tutor.step(batch)
    for name, p in module.named_parameters():
        torch.testing.assert_close(end.params[name], p.detach(), rtol=1e-9, atol=1e-10)


def test_teacher_steps_lower_the_held_out_loss_of_the_same_student() -> None:
    torch.manual_seed(1)
    teacher = InputWeigher().double()
    learner = Adam(teacher.parameters(), lr=0.1)
    judge = next(stream(77))
    found = episodic(
        make_student,
        teacher,
        learner,
        lambda _: batches(0),
        lambda _: judge,
        signal=Replayed(STEPS),
    )
    losses = [float(episode.held_out_loss) for episode in itertools.islice(found, 15)]
    assert losses[-1] < losses[0]


def test_a_curriculum_sees_how_far_each_run_has_come() -> None:
    seen = []

    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1, dtype=torch.float64))

        def weigh(self, prepared, observation):
            seen.append(observation.progress.fraction)
            return (self.scale * prepared.inputs.mean(1)).sigmoid()

    teacher = Noting()
    learner = SGD(teacher.parameters(), lr=0.1)
    next(episodic(make_student, teacher, learner, batches, held_out, signal=Unrolled(STEPS)))
    assert seen == [i / STEPS for i in range(STEPS)]


def test_a_long_run_with_adam_keeps_few_states() -> None:
    steps = 200
    module, optimizer = make_student(0)
    batch = next(stream())
    most = calls = 0

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(D, 1, dtype=torch.float64)

        def weigh(self, prepared, observation):  # noqa: ARG002 - the interface
            nonlocal most, calls
            calls += 1
            if calls % 97 == 0:  # counting looks at every object there is
                most = max(most, live_tensors())
            return self.net(prepared.inputs).sigmoid().squeeze(1)

    teacher = Counting()
    learner = SGD(teacher.parameters(), lr=0.1)
    gc.collect()
    before = live_tensors()
    found = episodic(
        lambda _: (module, optimizer),
        teacher,
        learner,
        lambda _: [batch] * steps,
        lambda _: batch,
        signal=Replayed(steps, "log"),
    )
    next(found)
    state = 4 * (1 + 2 + 1)  # four parameters, two moments, a step count
    # a state at each of about log2(200) levels, two or three in flight, and one step's graph
    assert most - before < state * 14 + 80


def test_alternating_learns_with_the_implicit_gradient() -> None:
    module = build("group norm")
    optimizer = SGD(module.parameters(), lr=0.05)
    teacher = LossWeigher().double()
    before = [p.detach().clone() for p in teacher.parameters()]
    tutor = Tutor(
        module,
        optimizer,
        teacher,
        Adam(teacher.parameters(), lr=0.01),
        signal=Implicit(Neumann(1, 0.05)),
    )
    records = list(alternating(tutor, itertools.islice(stream(), 5), stream(9)))
    assert len(records) == 5
    assert all(record.held_out_loss is not None for record in records)
    assert any(not torch.equal(a, b) for a, b in zip(teacher.parameters(), before, strict=True))


def test_a_compiled_student_is_taught_through_its_original_module() -> None:
    def taught(compiled: bool):
        module = build("relu network")
        student = torch.compile(module, backend="eager") if compiled else module
        assert isinstance(student, nn.Module)
        teacher = InputWeigher().double()
        with torch.no_grad():
            for p in teacher.parameters():
                p.fill_(0.1)
        tutor = Tutor(
            student,
            SGD(student.parameters(), lr=0.1, momentum=0.9),
            teacher,
            Adam(teacher.parameters(), lr=0.01),
            signal=Reversible(2),
            teacher_every=2,
        )
        list(alternating(tutor, itertools.islice(stream(), 6), stream(9)))
        return teacher

    eager, compiled = taught(compiled=False), taught(compiled=True)
    for a, b in zip(eager.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-8)


def test_a_run_whose_hypergradient_is_not_finite_costs_one_teacher_step_and_no_more() -> None:
    teacher = InputWeigher().double()
    learner = Adam(teacher.parameters(), lr=0.05)
    before = [p.detach().clone() for p in teacher.parameters()]

    def judge(number: int) -> Batch:
        batch = held_out(number)
        return batch._replace(inputs=batch.inputs * float("inf")) if number == 0 else batch

    found = episodic(make_student, teacher, learner, batches, judge, signal=Unrolled(STEPS))
    assert next(found).skipped
    assert not learner.state
    assert all(torch.equal(a, b) for a, b in zip(teacher.parameters(), before, strict=True))
    assert not next(found).skipped
    assert all(p.isfinite().all() for p in teacher.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(teacher.parameters(), before, strict=True))


def test_a_batch_made_under_inference_mode_is_refused_with_the_way_out() -> None:
    module = build("linear")
    tutor = Tutor(module, SGD(module.parameters(), lr=0.1), InputWeigher().double())
    with torch.inference_mode():
        x = torch.randn(B, D, dtype=torch.float64)
    batch = Batch(x, torch.zeros(B, dtype=torch.long), torch.arange(B))
    with pytest.raises(ValueError, match=r"torch\.no_grad"):
        tutor.step(batch)


def test_a_curriculum_commentary_can_be_learned_over_whole_runs() -> None:
    network = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.Flatten(), nn.LazyLinear(1))
    network(torch.zeros(1, 2, 4, 4))
    teacher = Curriculum(network)
    images = torch.randn(STEPS, B, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, C, (STEPS, B), generator=torch.Generator().manual_seed(1))
    ids = torch.arange(B)

    def student(_: int):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.ReLU(), nn.Linear(6, C))
        return module, Adam(module.parameters(), lr=0.01)

    def run_of(_: int) -> list[Batch]:
        return [Batch(x, y, ids) for x, y in zip(images, labels, strict=True)]

    before = [p.detach().clone() for p in teacher.parameters()]
    learner = Adam(teacher.parameters(), lr=1e-3)
    found = episodic(
        student, teacher, learner, run_of, lambda _: run_of(0)[0], signal=Replayed(STEPS)
    )
    next(found)
    assert all(not torch.equal(a, b) for a, b in zip(teacher.parameters(), before, strict=True))

"""Nothing piles up: as many tensors live after 50 teacher steps as after five."""

import gc
import itertools
from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from tests.cases import OPTIMIZERS, B, C, InputWeigher, build, stream, watched
from tests.tutoring import live_tensors, teaching
from tests.type_checks import unchecked
from tutelage.signals import (
    ConjugateGradient,
    Implicit,
    Lookahead,
    Neumann,
    Replayed,
    Reversible,
    Signal,
    TrajectorySignal,
    Unrolled,
)
from tutelage.signals.products import (
    Alignment,
    DoubleBackward,
    FiniteDifference,
    ForwardOverReverse,
)
from tutelage.teachers import InternalState, Plain
from tutelage.training.loops import episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

SIGNALS: dict[str, Signal] = {
    "unrolled": Unrolled(2),
    "replayed": Replayed(2),
    "reversible": Reversible(2),
    "lookahead": Lookahead(),
    "lookahead by dot products": Lookahead(product=Alignment()),
    "replayed by double backward": Replayed(2, product=DoubleBackward()),
    "reversible in forward mode": Reversible(2, product=ForwardOverReverse()),
    "lookahead by differences": Lookahead(product=FiniteDifference(bound=float("inf"))),
    "neumann": Implicit(Neumann(2, 0.05)),
    "conjugate gradient": Implicit(ConjugateGradient(2, damping=50.0)),
}
WHOLE: dict[str, TrajectorySignal] = {
    "unrolled": Unrolled(3),
    "replayed": Replayed(3),
    "reversible": Reversible(3),
    "exactly reversed": Reversible(3, exact=True),
}


@pytest.fixture(autouse=True)
def _only_what_is_new() -> Iterator[None]:
    """Let the count pass over what was there before the test; types are not checked."""
    gc.collect()
    gc.freeze()
    with unchecked():
        yield


@pytest.mark.parametrize(
    ("name", "attached"), [*((name, False) for name in SIGNALS), ("unrolled", True)]
)
def test_no_tensor_is_left_behind_by_50_teacher_steps(name, attached) -> None:
    signal, student = SIGNALS[name], build("relu network")
    teacher = InternalState(student, classes=C, tap="1", attached=attached).double()
    tutor = teaching(signal, student=student, teacher=teacher)
    batches, counts, every = stream(), {}, signal.steps
    for number in range(1, 50 * every + 1):
        tutor.step(next(batches), next(batches) if tutor.wants_held_out else None)
        if number in (5 * every, 50 * every):
            counts[number] = live_tensors()
    assert len(set(counts.values())) == 1


@pytest.mark.parametrize("name", WHOLE)
def test_no_tensor_is_left_behind_by_50_whole_runs(name) -> None:
    def student(_: int) -> tuple[nn.Module, SGD]:
        module = build("relu network")
        return module, SGD(module.parameters(), lr=0.1, momentum=0.9)

    def batches(_: int) -> list[Batch]:
        return list(itertools.islice(stream(), 3))

    teacher, counts = InputWeigher().double(), []
    learner = Adam(teacher.parameters(), lr=0.01)
    judge = next(stream(9))
    found = episodic(student, teacher, learner, batches, lambda _: judge, signal=WHOLE[name])
    for episode in itertools.islice(found, 50):
        number = episode.number
        del episode
        if number in (4, 49):
            counts.append(live_tensors())
    assert counts[0] == counts[1]


def test_a_tensor_that_is_left_behind_is_counted() -> None:
    before, kept = live_tensors(), torch.ones(1)
    assert live_tensors() == before + len(kept)


def test_no_tensor_is_left_behind_by_plain_steps() -> None:
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    tutor, counts = Tutor(student, SGD(student.parameters(), lr=0.1), Plain()), []
    for number in range(200):
        x, y = torch.randn(B, 64), torch.randint(0, 10, (B,))
        tutor.step(Batch(x, y, torch.arange(B)))
        if number in (4, 199):
            counts.append(live_tensors())
    assert counts[0] == counts[1]


class Held:
    """A tensor that a graph keeps; counts those that are kept, now and at most."""

    now: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()  # torch attaches it again
        Held.now += 1
        Held.most = max(Held.most, Held.now)

    def __del__(self) -> None:
        Held.now -= 1


def most_held(signal: Signal) -> int:
    """How many tensors the graphs of an estimate keep at most; none may be left after it."""
    module, teacher = build("relu network"), InputWeigher().double()
    call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=signal.steps)
    gc.collect()
    gc.disable()
    try:
        Held.most = Held.now = 0
        with torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.tensor):
            estimate = signal(*call)
        assert Held.now == 0
        assert all(g.grad_fn is None for g in estimate.grad.values())
        assert estimate.held_out_loss.grad_fn is None
    finally:
        gc.enable()
    return Held.most


def test_unrolled_keeps_the_graphs_of_all_steps_and_frees_them_after_the_estimate() -> None:
    few, many = most_held(Unrolled(4)), most_held(Unrolled(16))
    assert 3 < many / few < 5


@pytest.mark.parametrize(
    "signals",
    [
        (Replayed(4, "log"), Replayed(16, "log")),
        (Replayed(4, 3), Replayed(16, 3)),
        (Reversible(4), Reversible(16)),
    ],
    ids=["replayed, log", "replayed, three states", "reversible"],
)
def test_steps_that_are_taken_again_or_undone_keep_one_graph_at_a_time(signals) -> None:
    few, many = map(most_held, signals)
    assert few == many < most_held(Unrolled(4))


def test_segments_keep_half_the_root_of_the_steps_in_graphs() -> None:
    one = most_held(Replayed(4, "log"))
    for steps, graphs in ((4, 1), (16, 2), (64, 4)):
        assert most_held(Replayed(steps, "sqrt")) <= graphs * one


@pytest.mark.parametrize(
    "signal", [Lookahead(), Implicit(Neumann(8, 0.01))], ids=["one", "neumann"]
)
def test_a_look_back_over_one_step_frees_its_graph_after_the_estimate(signal) -> None:
    assert 0 < most_held(signal) <= 2 * most_held(Unrolled(1))

"""A student that recomputes parts of itself is taught as one that does not."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from threading import Thread
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer
from torch.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)

from tests.cases import C, D, InputWeigher, Seen, stream
from tests.tutoring import WithoutForwardMode
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.student import evaluate
from tutelage.losses.objectives import cross_entropy
from tutelage.per_example import Recorder
from tutelage.per_example.gradient_dots import gradient_dots
from tutelage.signals import Implicit, Lookahead, Neumann, Replayed, Reversible, Unrolled
from tutelage.signals.products import (
    Alignment,
    DoubleBackward,
    FiniteDifference,
    ForwardOverReverse,
)
from tutelage.teachers import InternalState
from tutelage.training.loops import episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

Way = Callable[..., Any]
new = partial(checkpoint, use_reentrant=False)
old = partial(checkpoint, use_reentrant=True)
matrices = partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])


def directly(part: nn.Module, x: Tensor) -> Tensor:
    return part(x)


def nested(part: Any, x: Tensor) -> Tensor:
    return new(lambda y: new(part[1:], new(part[0], y)), x)


def in_both_forms(part: Any, x: Tensor) -> Tensor:
    return old(lambda y: new(part[1:], old(part[0], y)), x)


WAYS: dict[str, Way] = {
    "not reentrant": new,
    "reentrant": old,
    "nested": nested,
    "in both forms": in_both_forms,
    "sequential": lambda part, x: checkpoint_sequential(part, 2, x, use_reentrant=False),
    "sequential, reentrant": lambda part, x: checkpoint_sequential(part, 2, x, True),
    "selective": partial(new, context_fn=matrices),
    "to the end": partial(new, early_stop=False),
    "of a closure": lambda part, x: new(lambda: part(x)),
}


class Student(nn.Module):
    """A body of which one part goes through ``way``."""

    def __init__(self, way: Way, part: nn.Module) -> None:
        super().__init__()
        self.first = nn.Linear(D, 6)
        self.part = part
        self.head = nn.Linear(6, C)
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.way(self.part, torch.tanh(self.first(x))))


def plain_part() -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 6), nn.Tanh()
    )


def normalised_part() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.SiLU())


class Attention(nn.Module):
    """Self-attention over two tokens, by a fused kernel where that is allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(3, 1, 4, dropout=0.2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.reshape(len(x), 2, 3)).flatten(1)


PARTS = {"plain": plain_part, "normalised": normalised_part, "attention": Attention}


def student(way: Way, part: str = "plain") -> Student:
    torch.manual_seed(0)
    return Student(way, PARTS[part]()).double()


def weigher() -> nn.Module:
    torch.manual_seed(1)
    return InputWeigher().double()


def shown(made: nn.Module, teacher: nn.Module, dtype: torch.dtype = torch.float64) -> list[Any]:
    """What a signal is shown after three real steps."""
    seen = Seen(3)
    optimizer = SGD(made.parameters(), lr=0.5, momentum=0.9)
    learner = SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(made, optimizer, teacher, learner, signal=seen, teacher_every=3)
    batches = (b._replace(inputs=b.inputs.to(dtype)) for b in stream())
    for _ in range(3):
        tutor.step(next(batches), next(batches))
    return [*seen.calls[0]]


SIGNALS: list[Any] = [
    Unrolled(3),
    Replayed(3),
    Replayed(3, "log"),
    Reversible(3),
    Lookahead(),
    Lookahead(DoubleBackward()),
    Lookahead(Alignment("ghost")),
    Replayed(3, product=ForwardOverReverse()),
    Replayed(3, product=FiniteDifference(1e-5)),
    Implicit(Neumann(2, 0.1)),
]


@cache
def without(part: str, signal: Any) -> dict[str, Tensor]:
    """What a signal gives for the student that recomputes nothing."""
    return signal(*shown(student(directly, part), weigher())).grad


def require_equal(way: Way, part: str, signals: list[Any]) -> None:
    call = shown(student(way, part), weigher())
    for signal in signals:
        got = signal(*call).grad
        rough = isinstance(getattr(signal, "product", None), FiniteDifference)
        near = 1e-6 if rough else 1e-9
        for name, grad in without(part, signal).items():
            torch.testing.assert_close(got[name], grad, rtol=near, atol=near * 1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_every_signal_sees_the_parameters_of_the_step_that_it_takes_again(way) -> None:
    require_equal(WAYS[way], "plain", [Unrolled(3), Lookahead(Alignment("ghost"))])


@pytest.mark.parametrize("signal", SIGNALS, ids=repr)
def test_each_signal_does(signal) -> None:
    require_equal(new, "plain", [signal])


@pytest.mark.parametrize("way", ["not reentrant", "reentrant", "selective"])
@pytest.mark.parametrize("part", ["normalised", "attention"])
def test_statistics_and_kernels_are_those_of_the_forward_pass(way, part) -> None:
    require_equal(WAYS[way], part, [Unrolled(3), Reversible(3), Lookahead()])


@pytest.mark.parametrize("way", ["not reentrant", "reentrant"])
def test_precision_is_that_of_the_forward_pass(way) -> None:
    found = []
    for how in (directly, WAYS[way]):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            call = shown(student(how).float(), weigher().float(), torch.float32)
        found.append(Unrolled(3)(*call).grad)
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("way", ["not reentrant", "reentrant"])
def test_features_within_a_checkpoint_are_seen(way) -> None:
    found = []
    for how in (directly, WAYS[way]):
        made = student(how)
        torch.manual_seed(2)
        teacher = InternalState(made, classes=C, tap="part.1", tap_width=6, surface=("loss",))
        nn.init.normal_(next(teacher.net.parameters()))
        found.append(Unrolled(3)(*shown(made, teacher.double())).grad)
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-9, atol=1e-12)


def trained(made: Student) -> tuple[nn.Module, Optimizer]:
    return made, SGD(made.parameters(), lr=0.5, momentum=0.9)


@pytest.mark.parametrize("way", ["not reentrant", "in both forms", "nested", "reentrant"])
def test_whole_runs_train_the_student_of_plain_torch_statistics_included(way) -> None:
    def made() -> Student:
        torch.manual_seed(0)
        part = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.SiLU())
        return Student(WAYS[way], part).double()

    batches = [next(stream(seed)) for seed in range(5)]
    teacher, torch_s = cast(InputWeigher, weigher()), made()
    optimizer = trained(torch_s)[1]
    for batch in batches:
        losses = cross_entropy(torch_s(batch.inputs), batch.targets)
        weights = teacher.weigh(batch, None).detach()
        optimizer.zero_grad()
        ((weights * losses).sum() / weights.sum()).backward()
        optimizer.step()
    for signal in (Unrolled(5), Replayed(5), Reversible(5, exact=True)):
        run = episodic(
            lambda _: trained(made()),
            teacher,
            SGD(teacher.parameters(), lr=0.0),
            lambda _: batches,
            lambda _: next(stream(9)),
            signal=signal,
        )
        got = next(run).student
        for name, tensor in torch_s.state_dict().items():
            if way != "nested" or name in got.params:  # torch renews some of them once less
                mine = (got.params | got.buffers)[name]
                torch.testing.assert_close(mine, tensor, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["auto", "ghost", "forward", "difference"])
@pytest.mark.parametrize("way", ["not reentrant", "reentrant", "nested"])
def test_dot_products_of_examples_are_those_without(way, method) -> None:
    batch: Batch = next(stream())
    torch.manual_seed(5)
    g = {k: torch.randn_like(p) for k, p in student(directly).named_parameters()}
    want = gradient_dots(student(directly), batch, g, method=method)
    got = gradient_dots(student(WAYS[way]), batch, g, method=method)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_a_recorder_reads_real_passes() -> None:
    found = []
    for how in (directly, WAYS["not reentrant"]):
        made, batch = student(how), next(stream())
        torch.manual_seed(5)
        g = {k: torch.randn_like(p) for k, p in made.named_parameters()}
        with Recorder(made).record(len(batch.ids)) as recording:
            torch.manual_seed(6)
            cross_entropy(made(batch.inputs), batch.targets).sum().backward()
        found.append(recording.dots(g, recording.ones()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9)


def test_what_a_reentrant_pass_hides_of_the_rows_is_not_guessed() -> None:
    made, batch = student(WAYS["reentrant"]), next(stream())
    g = {k: torch.randn_like(p) for k, p in made.named_parameters()}
    with Recorder(made).record(len(batch.ids)) as recording:
        cross_entropy(made(batch.inputs), batch.targets).sum().backward()
    with pytest.raises(UnsupportedStudentError, match=r"not known.*method='forward'"):
        recording.dots(g, recording.ones())


class Unfixed(nn.Module):
    """Changes with each call what it gives."""

    centre: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.centre.mul_(0.5).add_(x.detach().mean(0), alpha=0.5)
        return torch.tanh(x - self.centre)


def test_a_part_that_gives_something_else_when_it_is_run_again_is_refused() -> None:
    torch.manual_seed(0)
    made = Student(new, Unfixed()).double()
    signal = Replayed(3, product=FiniteDifference())
    with pytest.raises(UnsupportedStudentError, match=r"each time it is run.*out of the check"):
        signal(*shown(made, weigher()))


def test_a_part_that_draws_other_numbers_when_it_is_run_again_is_refused() -> None:
    careless = student(partial(new, preserve_rng_state=False))
    with pytest.raises(UnsupportedStudentError, match="preserve_rng_state at True"):
        Unrolled(3)(*shown(careless, weigher()))
    require_equal(partial(new, preserve_rng_state=False), "normalised", [Unrolled(3)])


class Again(torch.autograd.Function):
    """A checkpoint of somebody else's: parameters are arguments, the part is called again."""

    @staticmethod
    def forward(ctx: Any, part: nn.Module, x: Tensor, *params: Tensor) -> Tensor:
        ctx.part, ctx.params = part, params
        ctx.save_for_backward(x)
        with torch.no_grad():
            return part(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            out = ctx.part(x)
        own = list(ctx.part.parameters())
        return None, *torch.autograd.grad(out, [x, *own], grads)


@pytest.mark.parametrize("part", PARTS)
def test_a_thread_of_the_backward_pass_recomputes_the_same(part) -> None:
    # devices have threads of their own for it
    grads, batch = [], next(stream())
    for how, apart in ((directly, False), (nested if part == "plain" else new, True)):
        made = student(how, part)
        theta = {k: (2 * p).detach().requires_grad_() for k, p in made.named_parameters()}
        torch.manual_seed(3)
        out, _, _ = evaluate(made, theta, dict(made.named_buffers()), batch.inputs)

        def taken(out: Tensor = out, theta: dict[str, Tensor] = theta) -> None:
            grads.append(torch.autograd.grad(out.pow(2).sum(), [*theta.values()]))

        thread = Thread(target=taken)
        thread.start() if apart else taken()
        if apart:
            thread.join()
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-9, atol=1e-12)


def test_other_ways_to_recompute_are_refused_by_name() -> None:
    made = student(lambda part, x: Again.apply(part, x, *part.parameters()), "normalised")
    call = shown(made, weigher())
    with pytest.raises(UnsupportedStudentError, match=r"Sequential 'part' again.*checkpoint"):
        Unrolled(3)(*call)


def test_no_formula_of_forward_mode_within_a_checkpoint() -> None:
    PARTS["no forward mode"] = lambda: nn.Sequential(nn.Linear(6, 6), WithoutForwardMode())
    require_equal(new, "no forward mode", [Unrolled(3), Lookahead()])


def test_torch_s_own_checkpoints_are_as_they_were_afterwards() -> None:
    from torch.utils import checkpoint as home

    before = dict(vars(home)), dict(vars(home.CheckpointFunction))
    Unrolled(3)(*shown(student(in_both_forms), weigher()))
    assert (dict(vars(home)), dict(vars(home.CheckpointFunction))) == before


def test_contexts_of_a_checkpoint_are_entered() -> None:
    entered: list[int] = []

    class Context(nullcontext):
        def __enter__(self) -> None:
            entered.append(1)

    way = partial(new, context_fn=lambda: (Context(), nullcontext()))
    call = shown(student(way), weigher())
    Unrolled(3)(*call)  # the first estimate also checks for detached paths
    entered.clear()
    Unrolled(3)(*call)
    assert len(entered) == 4


@pytest.mark.parametrize("way", WAYS)
def test_a_student_keeps_its_own_parameters(way: str) -> None:
    made, teacher = student(WAYS[way]), weigher()
    own, before = dict(made.named_parameters()), [p.clone() for p in made.parameters()]
    optimizer, learner = SGD(made.parameters(), lr=0.5), SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(made, optimizer, teacher, learner, signal=Lookahead(DoubleBackward()))
    batches = stream()
    for _ in range(2):
        tutor.step(next(batches), next(batches))
    assert all(p is own[name] for name, p in made.named_parameters())
    assert not any(torch.equal(a, p) for a, p in zip(before, made.parameters(), strict=True))


class Levelled(nn.Module):
    """Recomputes a part that reads a buffer, which changes after it, between or before."""

    level: Tensor

    def __init__(self, way: Way, when: str) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(D, 6), nn.Linear(6, C)
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("level", torch.ones(6))
        self.way, self.when = way, when

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(x))
        if self.when == "before":
            self.follow(hidden)
        hidden = self.way(self.part, hidden)
        if self.when == "in place":
            self.level.mul_(0.5).add_(hidden.detach().mean(0), alpha=0.5)
        if self.when == "after":
            self.follow(hidden)
        if self.when == "statistics":
            hidden = self.norm(hidden)
        return self.last(hidden)

    def part(self, hidden: Tensor) -> Tensor:
        if self.when == "statistics" and self.norm.running_mean is not None:
            return torch.tanh(hidden - self.norm.running_mean)
        return torch.tanh(hidden * self.level)

    def follow(self, hidden: Tensor) -> None:
        self.level = 0.5 * self.level + 0.5 * hidden.detach().mean(0)


@pytest.mark.parametrize("when", ["in place", "after", "statistics"])
@pytest.mark.parametrize("way", [new, old])
def test_a_part_that_reads_what_changes_after_it_is_refused(way, when) -> None:
    torch.manual_seed(0)
    with pytest.raises(
        UnsupportedStudentError, match=r"reads .*(level|running_mean).* after it"
    ):
        shown(Levelled(way, when).double(), weigher())


@pytest.mark.parametrize("way", [new, old])
def test_a_part_that_reads_what_changes_before_it_is_recomputed(way) -> None:
    grads = []
    for how in (way, directly):
        torch.manual_seed(0)
        made = Levelled(how, "before").double()
        grads.append(Unrolled(3)(*shown(made, weigher())).grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-9, atol=1e-12)

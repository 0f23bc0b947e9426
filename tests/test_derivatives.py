"""Second derivatives that torch has wrong, or not at all: right, or refused by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils import parametrizations
from torch.optim import SGD

from tests.cases import C, D, InputWeigher, Seen, stream
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.decompositions import FORMULAS
from tutelage.losses.objectives import cross_entropy
from tutelage.per_example.gradient_dots import gradient_dots
from tutelage.signals import Implicit, Lookahead, Neumann, Replayed, Reversible, Unrolled
from tutelage.signals.products import (
    Alignment,
    DoubleBackward,
    FiniteDifference,
    ForwardOverReverse,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

RATE = 0.5


class Bags(nn.Module):
    """A bag of tokens."""

    def __init__(self, mode: str, **options: Any) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(9, 4, mode=mode, **options)
        self.head = nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.table((x > -0.5).long() + 3 * (x > 0.5).long())))


def between(middle: nn.Module, first: nn.Module | None = None) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(first or nn.Linear(D, 6), middle, nn.Linear(6, C))


def normed(kind: Callable[..., nn.Module], **options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(
        kind(nn.Linear(D, 6), **options), nn.Tanh(), kind(nn.Linear(6, C), **options)
    )


MADE: dict[str, Callable[[], nn.Module]] = {
    "weight norm": normed(parametrizations.weight_norm),
    "weight norm of columns": normed(parametrizations.weight_norm, dim=1),
    "old weight norm": normed(nn.utils.weight_norm),
    "hard sigmoid": lambda: nn.Sequential(nn.Linear(D, 6), nn.Hardsigmoid(), nn.Linear(6, C)),
    "bags by mean": lambda: Bags("mean"),
    "bags by maximum": lambda: Bags("max", padding_idx=0),
}


def student(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MADE[name]().double()


def batches(count: int = 3) -> list[Batch]:
    drawn = stream()
    return [next(drawn) for _ in range(count + 1)]


def shown(made: nn.Module, steps: int = 3) -> list[Any]:
    torch.manual_seed(1)
    seen, teacher = Seen(steps), InputWeigher().double()
    optimizer = SGD(made.parameters(), lr=RATE, momentum=0.9)
    learner = SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(made, optimizer, teacher, learner, signal=seen, teacher_every=steps)
    *train, judge = batches(steps)
    for batch in train:
        tutor.step(batch, judge)
    return [*seen.calls[0]]


def held_out_loss(made: nn.Module, teacher: InputWeigher, steps: int = 3) -> Tensor:
    """What a run of plain torch ends with."""
    optimizer = SGD(made.parameters(), lr=RATE, momentum=0.9)
    *train, judge = batches(steps)
    for batch in train:
        losses = cross_entropy(made(batch.inputs), batch.targets)
        weights = teacher.weigh(batch, None).detach()
        optimizer.zero_grad()
        ((weights * losses).sum() / weights.sum()).backward()
        optimizer.step()
    return cross_entropy(made(judge.inputs), judge.targets).mean().detach()


def slope(made: Callable[[], nn.Module], v: dict[str, Tensor], size: float = 1e-5) -> Tensor:
    ends = []
    for sign in (1, -1):
        torch.manual_seed(1)
        teacher = InputWeigher().double()
        with torch.no_grad():
            for name, p in teacher.named_parameters():
                p += sign * size * v[name]
        ends.append(held_out_loss(made(), teacher))
    return (ends[0] - ends[1]) / (2 * size)


@pytest.mark.filterwarnings("ignore:.torch.nn.utils.weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", MADE)
def test_the_hypergradient_is_that_of_differences_of_real_training(name) -> None:
    call = shown(student(name))
    torch.manual_seed(2)
    v = {k: torch.randn_like(p) for k, p in call[1].items()}
    want = slope(lambda: student(name), v)
    signals: list[Any] = [Unrolled(3), Replayed(3), Replayed(3, product=ForwardOverReverse())]
    for signal in signals:
        grad = signal(*call).grad
        got = torch.stack([(grad[k] * v[k]).sum() for k in v]).sum()
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:.torch.nn.utils.weight_norm. is deprecated:FutureWarning")
@pytest.mark.parametrize("name", MADE)
def test_dot_products_in_forward_mode_are_those_of_each_row_s_gradient(name) -> None:
    made, batch = student(name), batches()[0]
    torch.manual_seed(2)
    v = {k: torch.randn_like(p) for k, p in made.named_parameters()}
    near = 1e-7 if name == "hard sigmoid" else 1e-9  # of which torch's own slope is a float32
    require_dots(made, batch, v, near)


def require_dots(
    made: nn.Module, batch: Batch, v: dict[str, Tensor], near: float = 1e-9, **options: Any
) -> None:
    objective = options.get("objective", cross_entropy)
    losses = objective(made(batch.inputs), batch.targets)
    params = dict(made.named_parameters())
    rows = [torch.autograd.grad(x, [*params.values()], retain_graph=True) for x in losses]
    want = [
        torch.stack([(g * v[k]).sum() for g, k in zip(row, v, strict=True)]) for row in rows
    ]
    for method in ("forward", "auto"):
        got = gradient_dots(made, batch, v, method=method, **options)
        torch.testing.assert_close(got, torch.stack(want).sum(1).detach(), rtol=near, atol=near)


def test_torch_s_own_operators_are_there_again() -> None:
    before = [getattr(home, name) for home, name, _ in FORMULAS]
    Unrolled(3)(*shown(student("weight norm")))
    assert [getattr(home, name) for home, name, _ in FORMULAS] == before
    assert not {formula for _, _, formula in FORMULAS} & set(before)


BAGS = torch.tensor([0, 3, 3, 11])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("offsets", [None, BAGS, torch.cat([BAGS, torch.tensor([20])])])
def test_bags_are_reduced_as_torch_does(mode, padding, offsets) -> None:
    torch.manual_seed(0)
    table = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    indices = torch.randint(0, 7, (4, 5))
    options: dict[str, Any] = {"mode": mode, "padding_idx": padding}
    if offsets is not None:
        indices = indices.flatten()
        options |= {"offsets": offsets, "include_last_offset": len(offsets) == 5}
    if mode == "sum":
        options["per_sample_weights"] = torch.rand(indices.shape, dtype=torch.float64)
    own: Any = next(formula for _, name, formula in FORMULAS if name == "embedding_bag")
    want, got = F.embedding_bag(indices, table, **options), own(indices, table, **options)
    torch.testing.assert_close(got, want)
    grads = [torch.autograd.grad((out**3).sum(), table)[0] for out in (want, got)]
    torch.testing.assert_close(grads[1], grads[0])


class Once(torch.autograd.Function):
    """The hyperbolic tangent; torch takes the derivative of its gradient for zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:  # pyright: ignore
        return grads[0] * (1 - ctx.saved_tensors[0].tanh() ** 2)


class Calls(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def segments(x: Tensor) -> Tensor:
    sums = torch.segment_reduce(x.T.contiguous(), "sum", lengths=torch.tensor([2, 4]))
    return torch.cat([sums.T, x[:, :4]], 1)


WITHOUT: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "once": (Once.apply, "once_differentiable"),
    "no second derivative": (segments, "_segment_reduce_backward"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_an_operator_without_second_derivative_is_named_and_not_taken_for_zero(name) -> None:
    function, said = WITHOUT[name]

    def made() -> nn.Module:
        torch.manual_seed(0)
        return between(Calls(function))().double()

    call = shown(made())
    signals: list[Any] = [Unrolled(3), Replayed(3), Lookahead(DoubleBackward())]
    for signal in [*signals, Implicit(Neumann(1, 0.1))]:
        with pytest.raises(UnsupportedStudentError, match=rf"{said}.*FiniteDifference"):
            signal(*call)
    torch.manual_seed(2)
    v = {k: torch.randn_like(p) for k, p in call[1].items()}
    grad = Replayed(3, product=FiniteDifference(1e-4))(*call).grad
    got = torch.stack([(grad[k] * v[k]).sum() for k in v]).sum()
    torch.testing.assert_close(got, slope(made, v), rtol=1e-5, atol=1e-8)
    with pytest.raises(UnsupportedStudentError, match=r"forward mode.*DoubleBackward"):
        Replayed(3, product=ForwardOverReverse())(*call)


@pytest.mark.parametrize("name", WITHOUT)
def test_dot_products_need_no_second_derivative(name) -> None:
    torch.manual_seed(0)
    made, batch = between(Calls(WITHOUT[name][0]))().double(), batches()[0]
    v = {k: torch.randn_like(p) for k, p in made.named_parameters()}
    require_dots(made, batch, v)


def test_rows_one_by_one_are_refused_where_processes_normalise_together(monkeypatch) -> None:
    made, batch = between(Calls(WITHOUT["no second derivative"][0]))().double(), batches()[0]
    v = {k: torch.randn_like(p) for k, p in made.named_parameters()}
    monkeypatch.setattr("tutelage.per_example.forward.is_synchronised", lambda: True)
    with pytest.raises(UnsupportedStudentError, match="each row takes a backward pass"):
        gradient_dots(made, batch, v, method="forward")


def ctc(logits: Tensor, targets: Tensor) -> Tensor:
    steps = logits.unsqueeze(0).log_softmax(2)
    ones = torch.ones(len(targets), dtype=torch.long)
    return F.ctc_loss(steps, targets.clamp(min=1).unsqueeze(1), ones, ones, reduction="none")


def margins(logits: Tensor, targets: Tensor) -> Tensor:
    return F.multi_margin_loss(logits, targets, reduction="none")


@pytest.mark.parametrize("objective", [ctc, margins])
def test_losses_without_forward_mode_have_dot_products(objective) -> None:
    torch.manual_seed(0)
    made, batch = between(nn.BatchNorm1d(6))().double().eval(), batches()[0]
    v = {k: torch.randn_like(p) for k, p in made.named_parameters()}
    require_dots(made, batch, v, objective=objective)


class AmpStep(nn.Module):
    """Divides by the size of its weight, of which no gradient is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            size = self.layer.weight.norm()
        return torch.tanh(self.layer(x) / size)


def test_what_is_computed_without_gradient_has_none_in_forward_mode() -> None:
    torch.manual_seed(0)
    made, batch = between(AmpStep())().double(), batches()[0]
    v = {k: torch.randn_like(p) for k, p in made.named_parameters()}
    require_dots(made, batch, v)
    enter = torch.no_grad.__enter__
    with torch.no_grad():
        assert not torch.is_grad_enabled()
    assert torch.no_grad.__enter__ is enter


POWER_ITERATIONS: list[Any] = [
    Unrolled(3),
    Replayed(3),
    Replayed(3, product=FiniteDifference()),
    Reversible(3, product=FiniteDifference()),
    Replayed(3, product=ForwardOverReverse()),
    Reversible(3, product=ForwardOverReverse()),
    Implicit(Neumann(1, 0.1)),
    Implicit(Neumann(1, 0.1), product=FiniteDifference()),
    Implicit(Neumann(1, 0.1), product=ForwardOverReverse()),
    Lookahead(),
    Lookahead(Alignment("ghost")),
    Lookahead(FiniteDifference()),
]


@pytest.mark.parametrize("kind", [parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_power_iterations_are_refused_by_every_signal(kind) -> None:
    torch.manual_seed(0)
    made = between(nn.Tanh(), kind(nn.Linear(D, 6)))().double()
    call = shown(made)
    for signal in POWER_ITERATIONS:
        with pytest.raises(UnsupportedStudentError, match=r"spectral norm of '0'.*evaluation"):
            signal(*call)
    torch.manual_seed(0)
    layer = kind(nn.Linear(D, 6))
    frozen = between(nn.Tanh(), layer)().double()
    layer.eval()
    Unrolled(3)(*shown(frozen))


def test_tables_that_rescale_themselves_are_refused_and_never_changed_by_the_engine() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, C)

        def forward(self, x: Tensor) -> Tensor:
            return self.table((x[:, 0] > 0).long() + 4)

    made = Table().double()
    call = shown(made)
    made.table.max_norm = 0.5
    with pytest.raises(UnsupportedStudentError, match=r"'table' has max_norm=0\.5"):
        shown(made)
    for signal in (Unrolled(3), Replayed(3), Replayed(3, product=FiniteDifference())):
        with pytest.raises(UnsupportedStudentError, match=r"table.weight.*max_norm"):
            signal(*call)
    with torch.no_grad():
        made.table.weight.fill_(2.0)
    before = made.table.weight.detach().clone()
    problem, _, _, held_out = call
    problem.held_out_gradients(problem.student.state(), {}, held_out)
    Lookahead()(*call)
    assert torch.equal(made.table.weight, before)

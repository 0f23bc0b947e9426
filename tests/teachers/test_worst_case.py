"""The maximal expected loss over copies: closed form, gradient, bounds, and both teachers."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.losses.objectives import cross_entropy, squared_error, weighted_loss
from tutelage.randomness import mixed_seed
from tutelage.teachers import (
    CombinedTeacher,
    Copies,
    LabelPreservingTarget,
    UniformCopies,
    WorstCase,
    WorstCaseSoft,
)
from tutelage.teachers.group_reductions import group_max, group_softmax, group_sum
from tutelage.training.forward import prepare_batch
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress

B, K, C, D = 5, 4, 3, 6
GROUP = torch.arange(B).repeat(K)


def seen(losses: Tensor, logits: Tensor | None = None) -> Observation:
    return Observation(losses, losses[:, None] if logits is None else logits, {}, Progress())


def prepared_of(targets: Tensor, group: Tensor = GROUP) -> PreparedBatch:
    return PreparedBatch(targets, targets, group + 10, group)


def random_losses(seed: int = 0) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return 3 * torch.rand(B * K, generator=draws, dtype=torch.float64)


def worst_case_loss(losses: Tensor, group: Tensor, temperature: float) -> Tensor:
    """The maximum over P of ``sum_z P_z l_z - temperature KL(P || uniform)`` for each example.

    It equals ``temperature (logsumexp(l / temperature) - log n)``, lies between mean and
    maximum of the losses, and its gradient weighs theirs as ``WorstCase`` does.

    Source: Yi et al. 2021, eq. 4 with the maximiser of theorem 1 put in.
    """
    scaled = losses / temperature
    high = group_max(scaled.detach(), group)
    sums = group_sum((scaled - high[group]).exp(), group)
    counts = group_sum(torch.ones_like(scaled), group)
    return temperature * (high + sums.log() - counts.log())


def penalised(z: Tensor, losses: Tensor, temperature: float) -> Tensor:
    p = z.softmax(0)
    return (p * losses).sum() - temperature * (p * (len(p) * p).log()).sum()


@pytest.mark.parametrize("seed", range(20))
def test_the_weights_maximise_the_expected_loss_with_its_penalty(seed) -> None:
    draws = torch.Generator().manual_seed(seed)
    n = int(torch.randint(2, 21, (), generator=draws))
    temperature = 0.1 + 1.9 * float(torch.rand((), generator=draws))
    losses = 3 * torch.rand(n, generator=draws, dtype=torch.float64)
    group = torch.zeros(n, dtype=torch.int64)

    def negative(z) -> tuple[float, object]:
        at = torch.tensor(z, requires_grad=True)
        value = -penalised(at, losses, temperature)
        value.backward()
        assert at.grad is not None
        return value.item(), at.grad.numpy()

    found = minimize(negative, torch.zeros(n).double().numpy(), jac=True, tol=1e-12)
    p = WorstCase(temperature).weigh(prepared_of(losses, group), seen(losses))
    value = worst_case_loss(losses, group, temperature)
    assert value.item() == pytest.approx(-found.fun, abs=1e-9)
    # the optimiser's own tolerance
    assert torch.allclose(p, torch.tensor(found.x).softmax(0), atol=1e-4)
    attained = (p * losses).sum() - temperature * (p * (n * p).log()).sum()
    assert attained.item() == pytest.approx(value.item(), abs=1e-12)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_the_maximum_lies_between_mean_and_highest_loss(temperature) -> None:
    losses = random_losses()
    value = worst_case_loss(losses, GROUP, temperature)
    by_example = losses.view(K, B)
    assert (by_example.mean(0) <= value).all()
    assert (value <= by_example.max(0).values).all()


def test_a_high_temperature_gives_the_mean_and_a_low_one_the_maximum() -> None:
    losses = random_losses()
    by_example = losses.view(K, B)
    mean, highest = (worst_case_loss(losses, GROUP, t) for t in (1e6, 1e-4))
    assert torch.allclose(mean, by_example.mean(0), atol=1e-5)
    assert torch.allclose(highest, by_example.max(0).values, atol=1e-3)
    uniform = WorstCase(math.inf).weigh(prepared_of(losses), seen(losses))
    assert torch.allclose(uniform, torch.full_like(losses, 1 / K))


class Pair(nn.Module):
    """A smooth student with a few parameters."""

    def __init__(self, outputs: int = C) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, outputs)).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def noisy(inputs: Tensor, *, seed: int) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return inputs + 0.5 * torch.randn(inputs.shape, generator=draws, dtype=inputs.dtype)


def batch_of(*, numbers: bool = False, soft: bool = False) -> Batch:
    draws = torch.Generator().manual_seed(3)
    x = torch.randn(B, D, generator=draws, dtype=torch.float64)
    y = torch.randint(C, (B,), generator=draws)
    if numbers:
        y = torch.randn(B, generator=draws, dtype=torch.float64)
    if soft:
        y = torch.rand(B, C, generator=draws, dtype=torch.float64).softmax(1)
    return Batch(x, y, torch.arange(B) + 10)


def gradient(loss: Tensor, student: nn.Module) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*student.parameters()])])


def taken(
    weigher: nn.Module, student: nn.Module, batch: Batch, objective
) -> tuple[Tensor, Tutor]:
    """The gradient of a real step, and the tutor that took it."""
    teacher = CombinedTeacher(Copies(K, noisy, include_original=True), weigher)
    tutor = Tutor(student, SGD(student.parameters(), 0.0), teacher, objective=objective)
    tutor.step(batch)
    found = torch.cat([p.grad.flatten() for p in student.parameters() if p.grad is not None])
    return found, tutor


def shown(tutor: Tutor, batch: Batch) -> PreparedBatch:
    """The prepared batch of the tutor's first step."""
    return prepare_batch(tutor.problem, batch._replace(seed=mixed_seed(tutor.seed, 0)))


@pytest.mark.parametrize("temperature", [0.3, 1.0])
@pytest.mark.parametrize("kind", ["ids", "soft labels", "numbers"])
def test_a_step_follows_the_gradient_of_the_maximum(kind, temperature) -> None:
    numbers = kind == "numbers"
    student = Pair(1 if numbers else C)
    objective = squared_error if numbers else cross_entropy
    batch = batch_of(numbers=numbers, soft=kind == "soft labels")
    found, tutor = taken(WorstCase(temperature), student, batch, objective)
    prepared = shown(tutor, batch)
    losses = objective(student(prepared.inputs), prepared.targets)
    value = worst_case_loss(losses, prepared.group, temperature).mean()
    assert torch.allclose(found, gradient(value, student), rtol=1e-12, atol=1e-14)


def test_weights_left_in_the_graph_without_the_penalty_give_another_gradient() -> None:
    student, batch = Pair(), batch_of()
    found, tutor = taken(WorstCase(1.0), student, batch, cross_entropy)
    prepared = shown(tutor, batch)
    losses = cross_entropy(student(prepared.inputs), prepared.targets)
    attached = group_softmax(losses, prepared.group)
    wrong = gradient(weighted_loss(attached * losses, attached * 0 + 1, GROUP, None), student)
    assert (K * wrong - found).norm() / found.norm() > 0.02


def test_uniform_copies_give_the_mean_over_copies() -> None:
    student, batch = Pair(), batch_of()
    found, tutor = taken(UniformCopies(), student, batch, cross_entropy)
    prepared = shown(tutor, batch)
    mean = cross_entropy(student(prepared.inputs), prepared.targets).mean()
    assert torch.allclose(found, gradient(mean, student), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("weight", [0.5, 2.0])
@pytest.mark.parametrize("kind", ["ids", "numbers"])
def test_a_step_follows_the_gradient_of_the_soft_loss(kind, weight) -> None:
    numbers, temperature = kind == "numbers", 0.7
    student, batch = Pair(1 if numbers else C), batch_of(numbers=numbers)
    objective = squared_error if numbers else cross_entropy
    predict = partial(torch.squeeze, dim=1) if numbers else partial(torch.softmax, dim=1)
    weigher = WorstCaseSoft(temperature, weight, objective=objective, predict=predict)
    found, tutor = taken(weigher, student, batch, objective)
    outputs = student(shown(tutor, batch).inputs).view(K, B, -1)
    own = objective(outputs[0], batch.targets)
    target = predict(outputs[0]).detach()
    copies = torch.stack([objective(out, target) for out in outputs[1:]])
    soft = temperature * (torch.logsumexp(copies / temperature, 0) - math.log(K - 1))
    wanted = gradient((own + weight * soft).mean(), student)
    assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_cross_entropy_and_divergence_from_the_target_weigh_alike() -> None:
    draws = torch.Generator().manual_seed(0)
    logits = torch.randn(B * K, C, generator=draws, dtype=torch.float64)
    target = logits[:B].softmax(1)[GROUP]
    cross = cross_entropy(logits, target)
    divergence = F.kl_div(logits.log_softmax(1), target, reduction="none").sum(1)
    a, b = group_softmax(cross, GROUP), group_softmax(divergence, GROUP)
    assert torch.allclose(a, b, atol=1e-15)


def test_an_attached_target_changes_the_gradient() -> None:
    student, batch = Pair(), batch_of()
    detached, _ = taken(WorstCaseSoft(1.0, 1.0), student, batch, cross_entropy)
    attached = WorstCaseSoft(1.0, 1.0, detach_target=False)
    assert not torch.allclose(taken(attached, student, batch, cross_entropy)[0], detached)


def test_a_copy_that_means_something_else_gets_the_label_predicted_for_it() -> None:
    originals = torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    labels = torch.tensor([[0.6, 0.4], [0.6, 0.4]])
    student = torch.tensor([[0.7, 0.3], [0.3, 0.7]])
    rule = LabelPreservingTarget(originals, torch.tensor([11, 10]))
    prepared = PreparedBatch(labels, labels, torch.tensor([11, 10]), torch.arange(2))
    assert torch.equal(rule(prepared, student), torch.stack([student[0], labels[1]]))


def test_a_number_predicted_for_a_copy_counts_where_it_is_far_off() -> None:
    rule = LabelPreservingTarget(torch.tensor([1.0, 1.0]), torch.arange(2))
    prepared = PreparedBatch(
        torch.zeros(2), torch.tensor([1.5, 1.6]), torch.arange(2), torch.arange(2)
    )
    assert rule(prepared, torch.tensor([0.0, 0.0])).tolist() == pytest.approx([0.0, 1.6])


def test_labels_that_nobody_predicted_are_refused_by_the_rule() -> None:
    rule = LabelPreservingTarget(torch.rand(2, C), torch.arange(2))
    ids = torch.arange(2)
    with pytest.raises(ValueError, match="labels that a model predicts"):
        rule(PreparedBatch(ids, ids, ids, ids), torch.rand(2, C))
    with pytest.raises(ValueError, match="id 2"):
        rule(PreparedBatch(ids, torch.rand(2, C), ids + 1, ids), torch.rand(2, C))


@pytest.mark.parametrize("weigher", [WorstCase(1.0), WorstCaseSoft(1.0, 1.0)])
def test_an_example_without_copies_counts_by_itself(weigher) -> None:
    losses, one = random_losses()[:B], torch.arange(B)
    logits = torch.randn(B, C, dtype=torch.float64)
    prepared = PreparedBatch(logits, one % C, one, one)
    assert torch.allclose(
        weigher.weigh(prepared, seen(losses, logits)), torch.ones_like(losses)
    )


@pytest.mark.parametrize("make", [WorstCase, lambda t: WorstCaseSoft(t, 1.0)])
def test_a_temperature_of_zero_is_refused(make) -> None:
    with pytest.raises(ValueError, match="above 0"):
        make(0.0)


def test_weights_do_not_overflow_at_a_low_temperature() -> None:
    losses = 1e4 * random_losses().float()
    weights = WorstCase(1e-3).weigh(prepared_of(losses), seen(losses))
    assert torch.allclose(weights.view(K, B).sum(0), torch.ones(B))

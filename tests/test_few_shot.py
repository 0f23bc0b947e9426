"""A learned start: its gradient by hand, by differences, to first order, with a teacher."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adam

from papers.data.few_shot.episodes import Episode
from papers.few_shot import (
    accuracy,
    adapt,
    adaptation,
    evaluate_start,
    learn_start,
    weights_at,
)
from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy
from tutelage.models import FourBlockCNN, FourBlocks
from tutelage.signals import InitialGradientSignal, Replayed, Unrolled
from tutelage.signals.products import FirstOrder
from tutelage.teachers import Plain, SupportWeights
from tutelage.types import Batch, Params

WAYS, STEPS, LR = 3, 3, 0.3
SECOND_ORDER = [Unrolled(STEPS), Replayed(STEPS), Replayed(STEPS, memory=2)]
FIRST_ORDER = Replayed(STEPS, product=FirstOrder())


def episode(seed: int = 0) -> Episode:
    generator = torch.Generator().manual_seed(seed)

    def rows(each: int) -> Batch:
        targets = torch.arange(WAYS).repeat_interleave(each)
        x = torch.randn(len(targets), 2, 16, 16, generator=generator).double()
        return Batch(x + targets[:, None, None, None], targets, torch.arange(len(targets)))

    return Episode(rows(2), rows(4), torch.zeros(2 * WAYS, dtype=torch.bool))


def made(teacher: nn.Module) -> BilevelProblem:
    torch.manual_seed(0)
    student = FourBlockCNN(2, WAYS, 16, width=4).double()
    return BilevelProblem(
        StudentView(student, SGD(student.parameters(), lr=LR)), teacher, cross_entropy
    )


def weigher() -> SupportWeights:
    torch.manual_seed(1)
    network = FourBlocks(3, 16, width=4)
    teacher = SupportWeights(network, features=network.features, classes=WAYS, width=8)
    with torch.no_grad():  # far from even weights, so that they matter
        teacher.get_parameter("head.2.weight").mul_(20)
    return teacher.double()


def weights_by_hand(
    teacher: SupportWeights, teacher_params: Params, x: Tensor, y: Tensor, k: int
):
    network = {
        n.removeprefix("network."): p for n, p in teacher_params.items() if n[:8] == "network."
    }
    image = torch.cat([x, torch.full_like(x[:, :1], k / STEPS)], 1)
    features = functional_call(teacher.network, network, (image,))
    label = F.linear(
        F.one_hot(y, WAYS).double(),
        teacher_params["embed.weight"],
        teacher_params["embed.bias"],
    )
    both = torch.cat([features, label], 1)
    hidden = F.linear(
        both, teacher_params["head.0.weight"], teacher_params["head.0.bias"]
    ).relu()
    t = (
        F
        .linear(hidden, teacher_params["head.2.weight"], teacher_params["head.2.bias"])
        .sigmoid()
        .squeeze(1)
    )
    return len(t) * t / t.sum()


def by_hand(
    problem: BilevelProblem, of: Episode, theta: Params, teacher_params: Params, *, first: bool
) -> Tensor:
    """The query loss after K steps, a graph of both; to first order, dg/dtheta is cut."""
    start, module = theta, problem.student.module
    for k in range(STEPS):
        here = {n: p.detach().requires_grad_() for n, p in theta.items()} if first else theta
        losses = F.cross_entropy(
            functional_call(module, here, (of.support.inputs,)),
            of.support.targets,
            reduction="none",
        )
        teacher = problem.teacher
        if isinstance(teacher, SupportWeights):
            losses = losses * weights_by_hand(teacher, teacher_params, *of.support[:2], k)
        grads = torch.autograd.grad(losses.mean(), list(here.values()), create_graph=True)
        theta = {n: theta[n] - LR * g for n, g in zip(start, grads, strict=True)}
    return F.cross_entropy(functional_call(module, theta, (of.query.inputs,)), of.query.targets)


def own(module: nn.Module) -> Params:
    return {n: p.detach().clone().requires_grad_() for n, p in module.named_parameters()}


def gradient_by_hand(problem: BilevelProblem, *, first: bool) -> tuple[Tensor, Params, Params]:
    theta, teacher_params = own(problem.student.module), own(problem.teacher)
    loss = by_hand(problem, episode(), theta, teacher_params, first=first)
    # to first order, cutting every step's own copy leaves graphs that lead nowhere
    grads = torch.autograd.grad(
        loss, [*theta.values(), *teacher_params.values()], allow_unused=True
    )
    zeros = [torch.zeros_like(p) for p in (*theta.values(), *teacher_params.values())]
    found = [z if g is None else g for g, z in zip(grads, zeros, strict=True)]
    return (
        loss,
        dict(zip(theta, found, strict=False)),
        dict(zip(teacher_params, found[len(theta) :], strict=True)),
    )


def agree(got: Params, want: Params) -> None:
    assert got.keys() == want.keys()
    for name, tensor in want.items():
        torch.testing.assert_close(got[name], tensor, rtol=1e-8, atol=1e-11, msg=name)


@pytest.mark.parametrize("signal", SECOND_ORDER, ids=repr)
@pytest.mark.parametrize("teacher", [Plain, weigher])
def test_the_gradient_of_start_and_teacher_is_double_backward_by_hand(signal, teacher) -> None:
    problem = made(teacher())
    loss, theta, teacher_params = gradient_by_hand(problem, first=False)
    verdict = evaluate_start(problem, episode(), signal, STEPS, seed=0)
    torch.testing.assert_close(verdict.loss, loss.detach())
    agree(verdict.student, theta)
    agree(verdict.teacher, teacher_params)


@pytest.mark.parametrize("teacher", [Plain, weigher])
def test_to_first_order_the_inner_gradient_does_not_follow_the_student(teacher) -> None:
    problem = made(teacher())
    _, theta, teacher_params = gradient_by_hand(problem, first=True)
    verdict = evaluate_start(problem, episode(), FIRST_ORDER, STEPS, seed=0)
    agree(verdict.student, theta)
    agree(verdict.teacher, teacher_params)
    exact = evaluate_start(problem, episode(), SECOND_ORDER[0], STEPS, seed=0)
    name = "fc.weight"
    assert (exact.student[name] - theta[name]).norm() > 0.01 * theta[name].norm()


def test_to_first_order_the_starts_gradient_is_that_at_the_students_end() -> None:
    problem = made(Plain())
    end = adapt(
        problem, adaptation(problem, episode().support, STEPS, total_steps=STEPS, seed=0)
    )
    want = problem.held_out_gradients(end, {}, episode().query).student
    agree(evaluate_start(problem, episode(), FIRST_ORDER, STEPS, seed=0).student, want)


def test_the_gradient_is_a_difference_of_losses_after_real_steps() -> None:
    problem, eps = made(weigher()), 1e-6
    verdict = evaluate_start(problem, episode(), SECOND_ORDER[0], STEPS, seed=0)
    generator = torch.Generator().manual_seed(3)
    both: list[tuple[Params, Params]] = [
        (dict(problem.student.params), verdict.student),
        (dict(problem.teacher.named_parameters()), verdict.teacher),
    ]
    for params, grads in both:
        v = {k: torch.randn(p.shape, generator=generator).double() for k, p in params.items()}
        losses = [shifted(problem, params, v, scale) for scale in (eps, -eps)]
        slope = (losses[0] - losses[1]) / (2 * eps)
        want = torch.stack([(grads[k] * v[k]).sum() for k in v]).sum()
        torch.testing.assert_close(slope, want, rtol=1e-5, atol=1e-8)  # curvature, eps^2


@torch.no_grad()
def shifted(problem: BilevelProblem, params: Params, v: Params, scale: float) -> Tensor:
    for k, p in params.items():
        p.add_(scale * v[k])
    with torch.enable_grad():
        end = adapt(
            problem, adaptation(problem, episode().support, STEPS, total_steps=STEPS, seed=0)
        )
    loss = problem.held_out_loss(end, dict(problem.teacher.named_parameters()), episode().query)
    for k, p in params.items():
        p.sub_(scale * v[k])
    return loss


@pytest.mark.parametrize("signal", [SECOND_ORDER[0], FIRST_ORDER], ids=repr)
@pytest.mark.parametrize("teacher", [Plain, weigher])
def test_query_loss_falls_and_both_learn(signal: InitialGradientSignal, teacher) -> None:
    problem = made(teacher())
    params = [*problem.student.module.parameters(), *problem.teacher.parameters()]
    before = [p.detach().clone() for p in params]
    groups = [[episode(0), episode(1)]] * 20
    optimizer = Adam(params, lr=0.02)
    records = list(learn_start(problem, optimizer, groups, steps=STEPS, signal=signal))
    assert [record.number for record in records] == list(range(20))
    assert records[-1].query_loss < 0.8 * records[0].query_loss
    moved = [not torch.equal(a, b) for a, b in zip(before, params, strict=True)]
    assert sum(moved) > 0.8 * len(params)  # a bias before batch norm has no gradient
    assert all(p.grad is None for p in params)


def test_one_optimiser_step_is_along_the_mean_over_the_group() -> None:
    problem = made(Plain())
    before = own(problem.student.module)
    verdicts = [
        evaluate_start(problem, episode(i), SECOND_ORDER[0], STEPS, seed=0) for i in (0, 1)
    ]
    outer = SGD(problem.student.module.parameters(), lr=1.0)
    groups = [[episode(0), episode(1)]]
    next(learn_start(problem, outer, groups, steps=STEPS, signal=SECOND_ORDER[0]))
    want = {k: p.detach() - sum(v.student[k] for v in verdicts) / 2 for k, p in before.items()}
    agree(own(problem.student.module), want)


def test_steps_beyond_those_of_learning_go_on_and_leave_the_start_alone() -> None:
    problem = made(weigher())
    before = own(problem.student.module)
    steps = adaptation(problem, episode().support, 5, total_steps=STEPS, seed=0)
    assert [step.progress.fraction for step in steps] == [k / STEPS for k in range(5)]
    with_weights = adapt(problem, steps)
    without = adapt(replace(problem, teacher=Plain()), steps)
    assert not torch.equal(with_weights.params["fc.weight"], without.params["fc.weight"])
    agree(own(problem.student.module), before)
    assert accuracy(problem, with_weights, episode().support) > 1 / WAYS
    torch.testing.assert_close(weights_at(problem, steps[0]).mean(), torch.tensor(1.0).double())


def test_batch_normalisation_is_always_by_the_batch_at_hand() -> None:
    problem = made(Plain())
    steps = adaptation(problem, episode().support, STEPS, total_steps=STEPS, seed=0)
    end = adapt(problem, steps)
    corrupted = {name: torch.full_like(b, 7) for name, b in end.buffers.items()}
    odd = end._replace(buffers=corrupted)
    assert accuracy(problem, odd, episode().query) == accuracy(problem, end, episode().query)
    problem.student.module.eval()
    with pytest.raises(UsageError, match="evaluation mode"):
        accuracy(problem, end, episode().query)
    optimizer = SGD(problem.student.module.parameters(), lr=0.1)
    groups = [[episode()]]
    with pytest.raises(UsageError, match="train\\(\\)"):
        next(learn_start(problem, optimizer, groups, steps=STEPS, signal=SECOND_ORDER[0]))


def test_a_gradient_that_is_not_finite_moves_nothing() -> None:
    problem = made(Plain())
    before = own(problem.student.module)
    broken = episode()
    broken.query.inputs[0] = torch.inf
    optimizer = SGD(problem.student.module.parameters(), lr=0.1)
    learning = learn_start(problem, optimizer, [[broken]], steps=STEPS, signal=SECOND_ORDER[0])
    assert next(learning).skipped
    agree(own(problem.student.module), before)

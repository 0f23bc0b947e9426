"""Meta-Weight-Net's two scripts, against their steps written out by hand in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam

from tests.cases import build, stream
from tutelage.signals import Lookahead
from tutelage.signals.products import DoubleBackward
from tutelage.teachers import LossWeigher
from tutelage.training.meta_weight_net import paper_script, stable_script
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

STEPS = 4


def summing_to_one(losses: Tensor, weights: Tensor) -> Tensor:
    return (losses * (weights / weights.sum())).sum()


def over_the_batch(losses: Tensor, weights: Tensor) -> Tensor:
    return (losses * weights).sum() / len(losses)


def losses_of(student: nn.Module, params: dict[str, Tensor], batch: Batch) -> Tensor:
    buffers = {k: b.clone() for k, b in student.named_buffers()}
    logits = functional_call(student, params | buffers, (batch.inputs,))
    return cross_entropy(logits, batch.targets, reduction="none")


def rate(step: int) -> float:
    return 0.1 if step < 2 else 0.01


def by_hand(
    student: nn.Module,
    vnet: nn.Module,
    rule: torch.optim.Optimizer,
    vnet_rule: torch.optim.Optimizer,
    weighted: Callable[[Tensor, Tensor], Tensor],
) -> None:
    training, judging = stream(0), stream(1)
    for step in range(STEPS):
        batch, held_out = next(training), next(judging)
        params: dict[str, Tensor] = dict(student.named_parameters())
        losses = losses_of(student, params, batch)
        weights = vnet(losses.detach().unsqueeze(1)).sigmoid().squeeze(1)
        loss = weighted(losses, weights)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
        tried = {k: p - rate(step) * g for (k, p), g in zip(params.items(), grads, strict=True)}
        judged = losses_of(student, tried, held_out).mean()
        vnet_rule.zero_grad()
        judged.backward()
        vnet_rule.step()
        losses = cross_entropy(student(batch.inputs), batch.targets, reduction="none")
        with torch.no_grad():
            weights = vnet(losses.unsqueeze(1)).sigmoid().squeeze(1)
        for group in rule.param_groups:
            group["lr"] = rate(step)
        rule.zero_grad()
        weighted(losses, weights).backward()
        rule.step()


def run(tutor: Tutor) -> None:
    training, judging = stream(0), stream(1)
    for step in range(STEPS):
        for group in tutor.optimizer.param_groups:
            group["lr"] = rate(step)
        assert tutor.wants_held_out
        tutor.step(next(training), next(judging))


def assert_alike(tutor: Tutor, student: nn.Module, vnet: nn.Module) -> None:
    assert isinstance(tutor.teacher, LossWeigher)
    for ours, theirs in zip(tutor.teacher.net.parameters(), vnet.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(tutor.student.parameters(), student.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def fresh_net(tutor: Tutor) -> nn.Module:
    assert isinstance(tutor.teacher, LossWeigher)
    vnet = nn.Sequential(nn.Linear(1, 100), nn.ReLU(), nn.Linear(100, 1)).double()
    vnet.load_state_dict(tutor.teacher.net.state_dict())
    return vnet


@pytest.mark.parametrize("name", ["relu network", "batch norm"])
def test_the_papers_script(name: str) -> None:
    tutor, student = paper_script(build(name)), build(name)
    vnet = fresh_net(tutor)
    nesterov = {"momentum": 0.9, "nesterov": True, "weight_decay": 5e-4}
    rules = (
        SGD(student.parameters(), lr=0.1, **nesterov),
        SGD(vnet.parameters(), lr=1e-3, **nesterov),
    )
    by_hand(student, vnet, *rules, summing_to_one)
    run(tutor)
    assert_alike(tutor, student, vnet)


@pytest.mark.parametrize("name", ["relu network", "batch norm"])
def test_the_stable_script(name: str) -> None:
    tutor, student = stable_script(build(name)), build(name)
    vnet = fresh_net(tutor)
    rules = (
        SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4),
        Adam(vnet.parameters(), lr=1e-3, weight_decay=1e-4),
    )
    by_hand(student, vnet, *rules, over_the_batch)
    run(tutor)
    assert_alike(tutor, student, vnet)


def test_the_step_that_is_tried_is_plain_whatever_the_students_optimiser_is() -> None:
    def tutor(signal: Lookahead) -> Tutor:
        student = build("group norm")
        torch.manual_seed(3)
        teacher = LossWeigher().double()
        rule = Adam(student.parameters(), lr=0.1, weight_decay=0.1)
        learner = SGD(teacher.parameters(), lr=5.0)
        return Tutor(student, rule, teacher, learner, signal=signal)

    made = [tutor(Lookahead(p, "virtual")) for p in (DoubleBackward(), Lookahead().product)]
    student = build("group norm")
    vnet = fresh_net(made[0])
    rules = (
        Adam(student.parameters(), lr=0.1, weight_decay=0.1),
        SGD(vnet.parameters(), lr=5.0),
    )
    by_hand(student, vnet, *rules, summing_to_one)
    for each in made:
        run(each)
        assert_alike(each, student, vnet)


def test_the_two_ways_to_try_a_step_differ_where_there_is_momentum() -> None:
    tutor, other = paper_script(build("relu network")), paper_script(build("relu network"))
    assert other.teacher_updater is not None
    other.teacher.load_state_dict(tutor.teacher.state_dict())
    other.teacher_updater.signal = Lookahead(mode="restep")
    for each in (tutor, other):
        run(each)
    pairs = zip(tutor.teacher.parameters(), other.teacher.parameters(), strict=True)
    assert any((a - b).abs().max() > 1e-9 for a, b in pairs)


def test_a_virtual_step_is_judged_by_held_out_examples() -> None:
    with pytest.raises(ValueError, match="use mode='online'"):
        Lookahead(mode="virtual", evaluate_on="next")

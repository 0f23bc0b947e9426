"""MentorNet compares losses with a moving percentile, in closed form or by a small network."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from tests.cases import B, C, build, stream
from tests.teachers.finite import assert_exact, train
from tutelage.distributed.groups import empty_like
from tutelage.functional.replay_context import replay_context
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.teachers import MentorNetDD, MentorNetPD
from tutelage.teachers.loss_percentile import LossPercentile
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress, as_prepared


def seen(losses: Tensor, fraction: float) -> Observation:
    return Observation(losses, losses.unsqueeze(1), {}, Progress(fraction))


def some(seed: int) -> Tensor:
    return torch.rand(B, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("percentile", [0.0, 0.5, 0.7, 0.75, 1.0])
def test_the_level_is_a_moving_average_of_the_nearest_percentile(percentile) -> None:
    average, want = LossPercentile(percentile=percentile, decay=0.5).double(), 0.0
    for seed in range(4):
        losses = some(seed)
        now = np.percentile(losses.numpy(), 100 * percentile, method="nearest")
        want = 0.5 * want + 0.5 * now
        assert average(losses).item() == pytest.approx(want, rel=1e-12)
        level = average.remember(as_prepared(next(stream())), seen(losses, 0.0))["level"]
        average.level.copy_(level)
    assert average.level.item() == pytest.approx(want, rel=1e-12)


def test_a_batch_without_a_row_leaves_the_level_as_it_is() -> None:
    average = LossPercentile(percentile=0.7, decay=0.5).double()
    average.level.fill_(0.4)
    nothing = empty_like(next(stream()))
    level = average.remember(as_prepared(nothing), seen(some(0)[:0], 0.0))["level"]
    assert level.item() == 0.4


@pytest.mark.parametrize("width", [0.0, 0.3])
def test_the_predefined_weights_are_their_closed_form(width) -> None:
    teacher, losses = MentorNetPD(width=width, percentile=0.5).double(), some(1)
    teacher.average.level.fill_(0.4)
    level = 0.5 * 0.4 + 0.5 * np.percentile(losses.numpy(), 50, method="nearest")
    got = teacher.weigh(as_prepared(next(stream())), seen(losses, 0.2))
    for weight, loss in zip(got.tolist(), losses.tolist(), strict=True):
        soft = min(max(1 - (loss - level) / width, 0), 1) if width else float(loss <= level)
        assert weight == pytest.approx(soft, abs=1e-12)
    assert 0 < sum(got.tolist()) < B


@pytest.mark.parametrize("teacher", [MentorNetPD(), MentorNetDD(C)], ids=("PD", "DD"))
def test_a_random_half_counts_in_the_burn_in(teacher) -> None:
    drawn = set()
    for seed in range(10):
        torch.manual_seed(seed)
        weights = teacher.weigh(as_prepared(next(stream())), seen(some(seed).float(), 0.19))
        assert sorted(weights.tolist()) == [0, 0, 0, 1, 1, 1]
        drawn.add(tuple(weights.tolist()))
    assert len(drawn) > 5


def test_the_learned_weights_are_an_lstm_an_embedding_and_a_layer_of_20() -> None:
    torch.manual_seed(0)
    teacher, batch, losses = MentorNetDD(C).double(), next(stream()), some(2)
    for p in teacher.parameters():
        nn.init.normal_(p)
    teacher.average.level.fill_(0.4)
    lstm = nn.LSTM(2, 1, batch_first=True, bidirectional=True).double()
    w, b = teacher.gates.weight, teacher.gates.bias  # gates then candidates, forward first
    with torch.no_grad():
        for place, end in enumerate(("", "_reverse")):
            # torch's order: input, forget, cell, output; nothing to forget, cells are shown
            getattr(lstm, f"weight_ih_l0{end}").zero_()[[0, 2]] = w[[place, 2 + place]]
            getattr(lstm, f"bias_ih_l0{end}").zero_()[[0, 2]] = b[[place, 2 + place]]
            getattr(lstm, f"bias_hh_l0{end}").zero_()
    level = 0.5 * 0.4 + 0.5 * np.percentile(losses.numpy(), 70, method="nearest")
    _, (_, cells) = lstm(torch.stack([losses, losses - level], 1).unsqueeze(1))
    labels = teacher.labels.weight[batch.targets]
    features = torch.cat([labels, teacher.epochs[37].expand(B, -1), cells[0], cells[1]], 1)
    want = teacher.net(features).sigmoid().squeeze(1)
    got = teacher.weigh(as_prepared(batch), seen(losses, 0.375))
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    assert [tuple(p.shape) for p in teacher.net.parameters()] == [(20, 9), (20,), (1, 20), (1,)]


def test_the_last_epoch_is_the_hundredth() -> None:
    teacher, prepared = MentorNetDD(C), as_prepared(next(stream()))
    at_end = teacher.weigh(prepared, seen(some(0).float(), 0.99))
    assert torch.equal(teacher.weigh(prepared, seen(some(0).float(), 1.7)), at_end)


def fresh(seed: int = 3) -> MentorNetDD:
    torch.manual_seed(seed)
    teacher = MentorNetDD(C, burn_in=0.0).double()
    for p in teacher.parameters():
        nn.init.normal_(p)
    return teacher


def batches(count: int) -> list[Batch]:
    source = stream()
    return [next(source) for _ in range(count)]


def by_hand(teacher: MentorNetDD, taught: list[Batch], held_out: Batch) -> dict[str, Tensor]:
    """The hypergradient through all steps, weights and level taken as they were."""
    student = build("relu network")
    theta = {k: p.detach().requires_grad_() for k, p in student.named_parameters()}
    phi = dict(teacher.named_parameters())
    velocity = {k: torch.zeros_like(p) for k, p in theta.items()}
    level = torch.zeros((), dtype=torch.float64)
    for place, batch in enumerate(taught):
        logits = functional_call(student, theta, (batch.inputs,))
        losses = cross_entropy(logits, batch.targets, reduction="none")
        teacher.average.level.copy_(level)
        weights = teacher.weigh(as_prepared(batch), seen(losses.detach(), place / 10))
        level = teacher.average(losses.detach())
        loss = (weights * losses).mean()
        grads = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
        for (k, p), g in zip(theta.items(), grads, strict=True):
            velocity[k] = 0.5 * velocity[k] + g
            theta = theta | {k: p - 0.3 * velocity[k]}
    judged = functional_call(student, theta, (held_out.inputs,))
    loss = cross_entropy(judged, held_out.targets)
    return dict(zip(phi, torch.autograd.grad(loss, list(phi.values())), strict=True))


@pytest.mark.parametrize("signal", [Unrolled(3), Replayed(3), Reversible(3)], ids=str)
def test_its_hypergradient_sees_the_level_of_each_step_as_it_was(signal: Signal) -> None:
    *taught, held_out = batches(4)
    estimate, _ = train(lambda: build("relu network"), fresh(), taught, held_out, signal)
    assert estimate is not None
    wanted = by_hand(fresh(), taught, held_out)
    for name, grad in wanted.items():
        assert grad.any(), name
        torch.testing.assert_close(estimate.grad[name], grad, rtol=1e-7, atol=1e-12)


def test_a_look_ahead_sees_the_level_before_its_step() -> None:
    taught, held_out = batches(2)
    for signal in (Unrolled(1), Lookahead()):
        assert_exact(lambda: build("relu network"), fresh(), [taught], held_out, signal=signal)


def test_what_was_stored_goes_on_from_the_level_it_had() -> None:
    def tutor() -> Tutor:
        student = build("relu network")
        rule = SGD(student.parameters(), lr=0.1)
        return Tutor(student, rule, MentorNetPD(burn_in=0.0).double(), total_steps=9)

    first, second = tutor(), tutor()
    for batch in batches(3):
        first.step(batch)
    assert isinstance(first.teacher, MentorNetPD)
    assert first.teacher.average.level > 0
    second.load_state_dict(first.state_dict())
    for batch in batches(2):
        assert torch.equal(first.step(batch).weights, second.step(batch).weights)


def test_asking_for_weights_leaves_the_level_alone() -> None:
    student = build("relu network")
    teacher = MentorNetPD(burn_in=0.0).double()
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), teacher, total_steps=9)
    tutor.step(batches(1)[0])
    level = teacher.average.level.clone()
    observation = seen(some(0), 0.5)._replace(progress=tutor.progress)
    prepared = as_prepared(batches(1)[0])
    with replay_context(prepared, 0):
        one = tutor.problem.weights({}, prepared, observation, 0)
    assert torch.equal(one, tutor.problem.weights({}, prepared, observation, 0))
    assert torch.equal(teacher.average.level, level)


WRONG: list[dict[str, Any]] = [
    {"width": -0.1},
    {"percentile": 1.1},
    {"decay": 1.0},
    {"burn_in": -0.1},
    {"dropout": 1.1},
]


@pytest.mark.parametrize("settings", WRONG, ids=str)
def test_settings_that_mean_nothing_are_refused(settings) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        MentorNetPD(**settings)

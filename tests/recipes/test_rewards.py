"""Rewards are what the paper's formulas say, and a positive one is reinforced."""

import pytest
import torch
from torch import nn

from tutelage.recipes.rewards import (
    gradient_alignment,
    next_step_loss,
    normalised,
    reinforce,
    take,
)
from tutelage.records import Batch
from tutelage.teachers import SplitSampler
from tutelage.tutor import Tutor


def window(count: int, norm: bool = False):
    torch.manual_seed(0)
    layers = [
        nn.Linear(3, 5),
        nn.Tanh(),
        *([nn.BatchNorm1d(5)] if norm else []),
        nn.Linear(5, 2),
    ]
    student = nn.Sequential(*layers).double()
    rule = torch.optim.SGD(
        student.parameters(), 0.3, momentum=0.9, nesterov=True, weight_decay=0.1
    )
    tutor, taken = Tutor(student, rule, SplitSampler([4, 4])), []
    for seed in range(count):
        draws = torch.Generator().manual_seed(seed)
        inputs = torch.randn(6, 3, generator=draws, dtype=torch.float64)
        rows = torch.randint(8, (6,), generator=draws)
        taken.append(take(tutor, Batch(inputs, rows % 2, rows)))
    return tutor, taken


def gradients(tutor, taken, losses_of):
    """Per-example gradients at the state before a step, flattened."""
    params = taken.before.params
    own = {name: p.clone().requires_grad_() for name, p in params.items()}
    buffers = {name: b.clone() for name, b in taken.before.buffers.items()}
    logits = torch.func.functional_call(tutor.student, (own, buffers), (taken.batch.inputs,))
    losses = nn.functional.cross_entropy(logits, taken.batch.targets, reduction="none")
    rows = [
        torch.autograd.grad(row, list(own.values()), retain_graph=True)
        for row in losses_of(losses)
    ]
    return torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])


@pytest.mark.parametrize("norm", [False, True])
def test_alignment_is_the_product_of_own_gradient_and_that_of_the_next_step(norm):
    tutor, taken = window(3, norm)
    found = gradient_alignment(tutor, taken)
    assert found.shape == (2, 6)
    for t in range(2):
        each = gradients(tutor, taken[t], list)
        after = gradients(tutor, taken[t + 1], lambda losses: [losses.mean()])[0]
        wanted = each @ after
        wanted = (wanted - wanted.mean()) / (wanted.std() + 1e-8)
        assert torch.allclose(found[t], wanted, rtol=1e-9)


def test_the_next_steps_loss_is_normalised_over_the_window():
    tutor, taken = window(4)
    found = next_step_loss(tutor, taken)
    losses = torch.stack([s.loss for s in taken[1:]])
    assert torch.allclose(found[:, 0], -(losses - losses.mean()) / (losses.std() + 1e-8))


def test_a_single_reward_is_no_news():
    assert normalised(torch.tensor([3.0])).tolist() == [0.0]
    assert normalised(torch.tensor([3.0, 3.0])).tolist() == [0.0, 0.0]


def test_a_rewarded_part_becomes_likelier():
    tutor, taken = window(3)
    rewards = torch.stack([(s.batch.ids < 4).double() for s in taken[:-1]])
    learner = torch.optim.SGD(tutor.teacher.parameters(), 0.5)
    assert isinstance(tutor.teacher, SplitSampler)
    before = tutor.teacher.log_probs().detach()
    reinforce(tutor, learner, taken, rewards)
    assert tutor.teacher.log_probs()[0] > before[0]

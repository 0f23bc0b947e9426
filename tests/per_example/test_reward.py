"""What the numbers are for: they reward a policy as the meta-gradient would, and add up."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.per_example.oracle import F64, direction_for, numbers
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.per_example.coupling import couples_rows
from tutelage.types import Batch

ACTIONS, SIZE, RATE = 5, 7, 0.13
METHODS = ["auto", "ghost", "forward"]


class Chosen(nn.Module):
    """Parameters seen from the place that each action chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Parameter(numbers(SIZE))
        self.places = numbers(ACTIONS, SIZE, seed=1)

    def forward(self, actions: Tensor) -> Tensor:
        return self.theta - self.places[actions]


@pytest.mark.parametrize("method", METHODS)
def test_expected_rewards_are_the_meta_gradient_over_the_rate(method) -> None:
    student = Chosen()
    half = numbers(ACTIONS, SIZE, SIZE, seed=2)
    curves = half @ half.transpose(1, 2) / SIZE
    actions = torch.arange(ACTIONS)

    def losses(from_place: Tensor, action: Tensor) -> Tensor:
        return 0.5 * torch.einsum("bi,bij,bj->b", from_place, curves[action], from_place)

    def policy(scores: Tensor) -> Tensor:
        return (1 - scores.softmax(0)) / (ACTIONS - 1)

    scores = numbers(ACTIONS, seed=4).requires_grad_()
    gradients = torch.einsum("bij,bj->bi", curves, student(actions).detach())
    moved = student.theta.detach() - RATE * policy(scores) @ gradients
    later = torch.log1p(moved.square().sum())
    meta, g = torch.autograd.grad(later, [scores, moved])
    batch = Batch(actions, actions, actions)
    rewards = gradient_dots(student, batch, {"theta": g}, method=method, objective=losses)
    expected = (policy(scores).detach() * rewards * policy(scores).log()).sum()
    (reinforced,) = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(meta, -RATE * reinforced)


@pytest.mark.parametrize("method", METHODS)
def test_with_batch_norm_the_mean_is_the_gradients_dot_product(method) -> None:
    torch.manual_seed(0)
    student = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 16, 3),
    ).to(F64)
    batch = Batch(numbers(6, 3, 8, 8), torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(6))
    g = direction_for(student)
    kept = {k: b.clone() for k, b in student.named_buffers()}
    rewards = gradient_dots(student, batch, g, method=method)
    torch.testing.assert_close(dict(student.named_buffers()), kept, rtol=0, atol=0)
    loss = F.cross_entropy(student(batch.inputs), batch.targets)
    grads = torch.autograd.grad(loss, list(student.parameters()))
    whole = torch.stack([(d * v).sum() for d, v in zip(grads, g.values(), strict=True)]).sum()
    torch.testing.assert_close(rewards.mean(), whole)


@pytest.mark.parametrize("method", METHODS)
def test_batch_norm_at_rest_leaves_examples_alone(method) -> None:
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2)).to(F64)
    student(numbers(9, 2))
    student.eval()
    assert not couples_rows(student)
    x, y = numbers(3, 2, seed=8), torch.tensor([0, 1, 1])
    g = direction_for(student)
    together = gradient_dots(student, Batch(x, y, torch.arange(3)), g, method=method)
    alone = [
        gradient_dots(
            student, Batch(x[k : k + 1], y[k : k + 1], torch.arange(1)), g, method=method
        )
        for k in range(3)
    ]
    torch.testing.assert_close(together, torch.cat(alone))

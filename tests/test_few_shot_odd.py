"""A learned start where tasks are as small as can be, and where attention sees nothing."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from papers.data.few_shot.episodes import Episode
from papers.few_shot import evaluate_start
from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy
from tutelage.models import FourBlockCNN, FourBlocks
from tutelage.signals import Replayed, Unrolled
from tutelage.signals.products import FirstOrder
from tutelage.teachers import Plain, SupportWeights
from tutelage.types import Batch

STEPS = 2
SIGNALS = [Unrolled(STEPS), Replayed(STEPS), Replayed(STEPS, product=FirstOrder())]


def rows(x: Tensor, ways: int) -> Batch:
    places = torch.arange(len(x))
    return Batch(x, places % ways, places)


def episode(support: Tensor, query: Tensor, ways: int) -> Episode:
    corrupted = torch.zeros(len(support), dtype=torch.bool)
    return Episode(rows(support, ways), rows(query, ways), corrupted)


@pytest.mark.parametrize("ways", [2, 3])
@pytest.mark.parametrize("signal", SIGNALS, ids=repr)
def test_one_example_of_each_class_moves_every_parameter_of_both(signal, ways) -> None:
    torch.manual_seed(0)
    student = FourBlockCNN(1, ways, 16, width=4).double()
    blocks = FourBlocks(2, 16, width=4)
    teacher = SupportWeights(blocks, features=4, classes=ways, width=8).double()
    problem = BilevelProblem(
        StudentView(student, SGD(student.parameters(), 0.3)), teacher, cross_entropy
    )
    images = torch.randn(2 * ways, 1, 16, 16).double()
    verdict = evaluate_start(
        problem, episode(images[:ways], images[ways:], ways), signal, STEPS, seed=0
    )
    assert verdict.student.keys() == dict(student.named_parameters()).keys()
    assert verdict.teacher.keys() == dict(teacher.named_parameters()).keys()
    for name, grad in (verdict.student | verdict.teacher).items():
        assert grad.isfinite().all(), name
        assert grad.abs().max() > 1e-12 or name.endswith(".0.bias"), name  # batch norm follows


class Attending(nn.Module):
    """Attention over the places of a row that hold a number."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden, x = x[..., 0].isnan(), x.nan_to_num()
        out, _ = self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)
        return self.head(out.mean(1))


class FirstRows(nn.Module):
    """Weights 1 for the first rows of a support set, 0 for others."""

    normalise = None

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def weigh(self, prepared, observation) -> Tensor:
        return (torch.arange(len(prepared.ids)) < self.count).to(observation.losses.dtype)


@pytest.mark.parametrize("signal", SIGNALS, ids=repr)
def test_an_example_whose_keys_are_all_masked_gives_no_nan(signal) -> None:
    torch.manual_seed(0)
    module = Attending().double()
    x = torch.randn(5, 3, 4).double()
    masked = x.clone()
    masked[2] = torch.nan
    view = StudentView(module, SGD(module.parameters(), 0.3))
    verdicts = [
        evaluate_start(
            BilevelProblem(view, teacher, cross_entropy),
            episode(support, x[3:], 2),
            signal,
            STEPS,
            seed=0,
        )
        for teacher, support in [(Plain(), masked[:3]), (FirstRows(2), masked[:3])]
    ]
    assert all(grad.isfinite().all() for grad in verdicts[0].student.values())
    # left out by its weight, it is any other example that is left out
    problem = BilevelProblem(view, FirstRows(2), cross_entropy)
    want = evaluate_start(problem, episode(x[:3], x[3:], 2), signal, STEPS, seed=0)
    for name, grad in verdicts[1].student.items():
        torch.testing.assert_close(grad, want.student[name], rtol=1e-9, atol=1e-12, msg=name)

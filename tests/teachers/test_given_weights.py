"""Weights that are known before training."""

import pytest
import torch
from torch import nn
from torch.optim import SGD

from tutelage.errors import UsageError
from tutelage.records import Batch, Lesson, Observation, Progress
from tutelage.teachers import GivenWeights
from tutelage.tutor import Tutor


def test_each_example_has_its_own_in_any_batch():
    teacher = GivenWeights(torch.tensor([7, 3, 5]), torch.tensor([0.7, 0.3, 0.5]))
    student = nn.Linear(2, 2)
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), teacher)
    batch = Batch(torch.randn(2, 2), torch.tensor([0, 1]), torch.tensor([3, 7]), 0)
    assert tutor.step(batch).weights.tolist() == pytest.approx([0.3, 0.7])


def test_what_is_no_weight_is_refused():
    with pytest.raises(UsageError, match="a weight is -1; allowed: 0 and above"):
        GivenWeights(torch.tensor([0, 1]), torch.tensor([1.0, -1.0]))
    with pytest.raises(UsageError, match="a weight is nan"):
        GivenWeights(torch.tensor([0]), torch.tensor([float("nan")]))
    with pytest.raises(UsageError, match="2 weights for 1 ids"):
        GivenWeights(torch.tensor([0]), torch.tensor([1.0, 1.0]))


def test_an_example_that_no_weight_was_given_for_has_none():
    teacher = GivenWeights(torch.tensor([0, 2]), torch.tensor([0.5, 2.0]))
    labels, ids = torch.zeros(4), torch.tensor([2, 1, 3, 0])
    seen = Observation(torch.zeros(4), torch.zeros(4, 2), {}, Progress(0.0, 0.0, 0.0))
    found = teacher.weigh(Lesson(torch.zeros(4, 1), labels, ids, ids), seen)
    assert found.nan_to_num(nan=-1).tolist() == [2.0, -1.0, -1.0, 0.5]

"""Weights that are known before training."""

import pytest
import torch
from torch import nn
from torch.optim import SGD

from tutelage.errors import UsageError
from tutelage.teachers import GivenWeights
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress


def test_each_example_has_its_own_in_any_batch():
    teacher = GivenWeights(torch.tensor([7, 3, 5]), torch.tensor([0.7, 0.3, 0.5]))
    student = nn.Linear(2, 2)
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), teacher)
    batch = Batch(torch.randn(2, 2), torch.tensor([0, 1]), torch.tensor([3, 7]), 0)
    assert tutor.step(batch).weights.tolist() == pytest.approx([0.3, 0.7])


WRONG = {
    "negative": ([0, 1], [1.0, -1.0], r"a weight is -1; allowed: 0 and above.*of id 1"),
    "not a number": ([0], [float("nan")], "a weight is nan"),
    "infinite in single precision": ([4, 2], [1e308, 1.0], r"a weight is 1e\+308.*of id 4"),
    "too few ids": ([0], [1.0, 1.0], "2 weights for 1 ids"),
    "ids twice": ([3, 1, 3, 1], [1.0] * 4, "ids 1, 3 come twice"),
    "a negative id": ([0, -1], [1.0, 1.0], "ids -1 are negative"),
    "real ids": ([0.5, 1.0], [1.0, 1.0], r"ids are torch.float.*whole numbers"),
    "a table of weights": ([0, 1], [[1.0], [1.0]], "one for each id"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_weight_is_refused(name):
    ids, weights, message = WRONG[name]
    with pytest.raises(UsageError, match=message):
        GivenWeights(torch.tensor(ids), torch.tensor(weights, dtype=torch.float64))


def seen(count):
    return Observation(torch.zeros(count), torch.zeros(count, 2), {}, Progress(0.0, 0.0, 0.0))


@pytest.mark.parametrize("strange", [[1], [3], [-1], [10**15], [1, 3, -1]])
def test_examples_that_no_weight_was_given_for_are_named(strange):
    teacher = GivenWeights(torch.tensor([0, 2]), torch.tensor([0.5, 2.0]))
    ids = torch.tensor([2, *strange, 0])
    prepared = PreparedBatch(torch.zeros(len(ids), 1), torch.zeros(len(ids)), ids, ids)
    listed = ", ".join(map(str, sorted(strange)))
    with pytest.raises(UsageError, match=f"with ids {listed}: give one for each"):
        teacher.weigh(prepared, seen(len(ids)))


def test_large_ids_take_no_memory():
    teacher = GivenWeights(torch.tensor([2**62, 7]), torch.tensor([0.5, 2.0]))
    ids = torch.tensor([7, 2**62, 7])
    prepared = PreparedBatch(torch.zeros(3, 1), torch.zeros(3), ids, ids)
    assert teacher.weigh(prepared, seen(3)).tolist() == [2.0, 0.5, 2.0]

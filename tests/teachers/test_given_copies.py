"""Copies that a batch brings are the rows that ``Copies`` would have made of it."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.errors import UsageError
from tutelage.teachers import CombinedTeacher, Copies, GivenCopies, WorstCase, WorstCaseSoft
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

B, K, D, C = 4, 3, 5, 3


def noisy(inputs: Tensor, /, *, seed: int) -> Tensor:
    noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(seed))
    return inputs + noise


def plain() -> Batch:
    x = torch.randn(B, D, generator=torch.Generator().manual_seed(0))
    return Batch(x, torch.tensor([0, 2, 1, 0]), torch.arange(10, 10 + B), seed=3)


def brought(batch: Batch) -> Batch:
    rows = Copies(K, noisy, include_original=True).prepare(batch).inputs
    return batch._replace(inputs=rows.view(K, B, D).transpose(0, 1))


def test_rows_are_those_of_copies_made_on_the_spot():
    made = Copies(K, noisy, include_original=True).prepare(plain())
    found = GivenCopies().prepare(brought(plain()))
    for name, value in made._asdict().items():
        other = getattr(found, name)
        assert torch.equal(other, value) if isinstance(value, Tensor) else other == value, name


@pytest.mark.parametrize("weigher", [WorstCase(0.5), WorstCaseSoft(0.5, 1.0)])
def test_a_step_is_that_of_copies_made_on_the_spot(weigher):
    batch, losses = plain(), []
    own = Copies(K, lambda x, /, *, seed: kept, include_original=True)  # noqa: ARG005
    kept = GivenCopies().prepare(brought(batch)).inputs[B:]
    for teacher, given in ((own, batch), (GivenCopies(), brought(batch))):
        torch.manual_seed(0)
        student = nn.Linear(D, C)
        tutor = Tutor(
            student, SGD(student.parameters(), 0.1), CombinedTeacher(teacher, weigher)
        )
        tutor.step(given)
        losses.append((tutor.step(given).loss, student.weight.detach().clone()))
    (one, weight), (other, same_weight) = losses
    assert one == other
    assert torch.equal(weight, same_weight)


def test_inputs_without_copies_are_refused():
    with pytest.raises(UsageError, match=r"shape \(4,\); give \[B, k, ...\]"):
        GivenCopies().prepare(plain()._replace(inputs=torch.zeros(B)))

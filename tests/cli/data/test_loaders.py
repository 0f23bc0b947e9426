"""Loaders of others: examples keep their ids, and held-out ones are drawn by number."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tutelage.data.loaders import RandomBatches, WithIds, as_batch, without_ids
from tutelage.errors import UsageError
from tutelage.types import Batch

TEN = TensorDataset(torch.arange(10.0)[:, None], torch.arange(10) % 3)


def test_a_shuffled_loader_gives_each_example_with_its_own_id() -> None:
    seen = [as_batch(loaded) for loaded in DataLoader(WithIds(TEN), 4, shuffle=True)]
    ids = torch.cat([batch.ids for batch in seen])
    assert ids.dtype == torch.int64
    assert sorted(ids.tolist()) == list(range(10))
    for batch in seen:
        assert torch.equal(batch.inputs[:, 0], batch.ids.float())
        assert torch.equal(batch.targets, batch.ids % 3)


def test_a_draw_depends_on_its_number_and_seed_alone() -> None:
    draws = RandomBatches(TEN, 4)
    first, again = draws(7), RandomBatches(TEN, 4)(7)
    assert torch.equal(first[0], again[0])
    assert len(set(first[0].flatten().tolist())) == 4
    assert len({tuple(draws(n)[0].flatten().tolist()) for n in range(20)}) > 10
    assert not torch.equal(RandomBatches(TEN, 4, seed=1)(7)[0], first[0])
    assert len(RandomBatches(TEN, 99)(0)[0]) == 10


def test_a_batch_is_made_of_what_a_loader_gives() -> None:
    inputs, targets = TEN.tensors
    made = Batch(inputs, targets, torch.arange(10))
    assert as_batch(made) is made
    assert without_ids((inputs, targets)).ids.tolist() == [-1] * 10
    assert without_ids([inputs, targets, made.ids]).ids is made.ids


def test_what_is_no_batch_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no ids.*WithIds\(examples\)"):
        as_batch(TEN.tensors)
    with pytest.raises(UsageError, match="4 parts"):
        as_batch([torch.zeros(1)] * 4)
    with pytest.raises(UsageError, match="no examples"):
        RandomBatches(TensorDataset(torch.zeros(0, 1)), 4)
    with pytest.raises(UsageError, match="size must be 1 or above, got 0"):
        RandomBatches(TEN, 0)

"""Feature vectors in memory."""

import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.features.feature_set import (
    CollateFeatures,
    FeatureSet,
    feature_statistics,
)

CPU = torch.device("cpu")


def some(rows: int = 7) -> FeatureSet:
    values = torch.randn(rows, 3, generator=torch.Generator().manual_seed(0)) * 5 + 2
    return FeatureSet(values, torch.arange(rows) % 2, torch.arange(rows), ("a", "b"), "some")


def test_rows_and_labels_are_chosen_together():
    chosen = some().rows(torch.tensor([4, 1])).with_labels(torch.tensor([1, 1]))
    assert (chosen.ids.tolist(), chosen.labels.tolist()) == ([4, 1], [1, 1])
    assert chosen.features.equal(some().features[[4, 1]])
    assert chosen.names() == ["4", "1"]
    assert len(set(some().contents())) == 7


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": torch.ones(2, 3).double()}, "give torch.float32"),
        ({"features": torch.ones(2)}, r"of shape \[N, D\]"),
        ({"labels": torch.ones(2)}, "labels of it are torch.float32"),
        ({"ids": torch.arange(3)}, r"shape \(3,\)"),
        ({"labels": torch.tensor([0, 2])}, "row 1 of it has label 2"),
    ],
)
def test_fields_that_disagree_are_refused(changed, message):
    fields = {
        "features": torch.ones(2, 3),
        "labels": torch.tensor([0, 1]),
        "ids": torch.arange(2),
        "classes": ("a", "b"),
        "name": "it",
    }
    with pytest.raises(UsageError, match=message):
        FeatureSet(**fields | changed)


def test_batches_are_normalised_and_come_again():
    found = some()
    collate = CollateFeatures(*feature_statistics(found))
    batches = Batches(found, 3, 0, collate, CPU)
    whole = torch.cat([batch.inputs for batch in batches.whole(3)])
    expected = found.features.double()
    expected = (expected - expected.mean(0)) / expected.std(0, correction=0)
    assert torch.allclose(whole.double(), expected, atol=1e-5)
    one, other = (list(batches.epoch(2)) for _ in range(2))
    assert all(a.inputs.equal(b.inputs) for a, b in zip(one, other, strict=True))
    assert sorted(torch.cat([batch.ids for batch in one]).tolist()) == list(range(7))
    for batch in one:
        assert batch.targets.equal(found.labels[batch.ids])
    with pytest.raises(UsageError, match="has no rows left"):
        Batches(found.rows(torch.arange(0)), 3, 0, collate, CPU)

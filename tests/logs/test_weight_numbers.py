"""The numbers told of weights are what their definitions say, at the edges, too."""

import math

import numpy as np
import pytest
import torch

from tutelage.logs import weight_numbers
from tutelage.logs.reporter import QUANTILES


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_numbers_are_what_their_definitions_say(rows):
    w = torch.rand(rows, dtype=torch.float64, generator=torch.Generator().manual_seed(rows))
    found = {name: float(x) for name, x in weight_numbers(w).items()}
    plain = w.numpy()
    p = plain / plain.sum()
    right = {
        "mean": plain.mean(),
        "effective_size": plain.sum() ** 2 / (plain**2).sum(),
        "entropy": -(p * np.log(p)).sum(),
    } | {name: np.quantile(plain, share) for name, share in QUANTILES.items()}
    assert found == pytest.approx(right, rel=1e-5, abs=1e-6)  # told in float32


@pytest.mark.parametrize(
    ("weights", "size", "entropy"),
    [
        ([0.3, 0.3, 0.3, 0.3], 4.0, math.log(4)),
        ([0.0, 5.0, 0.0, 0.0], 1.0, 0.0),
        ([2.0, 0.0, 2.0, 0.0], 2.0, math.log(2)),
        ([0.0, 0.0, 0.0, 0.0], 0.0, math.nan),
        ([1.0, -1.0, 2.0, 2.0], 1.6, math.nan),
        ([-1.0, -1.0, -1.0, -1.0], 4.0, math.nan),
    ],
)
def test_effective_size_counts_rows_and_entropy_is_told_where_it_is_defined(
    weights, size, entropy
):
    found = weight_numbers(torch.tensor(weights))
    assert float(found["effective_size"]) == pytest.approx(size)
    assert float(found["entropy"]) == pytest.approx(entropy, nan_ok=True)


def test_the_effective_size_does_not_depend_on_the_level():
    w = torch.tensor([0.1, 0.7, 0.2])
    one, other = (weight_numbers(scale * w)["effective_size"] for scale in (1.0, 1e-6))
    assert float(one) == pytest.approx(float(other), rel=1e-5)

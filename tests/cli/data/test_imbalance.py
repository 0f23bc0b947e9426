"""Long-tailed parts of a balanced set."""

import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.splits import long_tailed_rows

LABELS = torch.arange(1000) % 10


def counts(factor: float, seed: int = 0) -> list[int]:
    rows = long_tailed_rows(LABELS, factor, 10, seed=seed)
    assert torch.equal(rows, rows.unique())
    return torch.bincount(LABELS[rows], minlength=10).tolist()


def test_the_first_class_is_the_factor_times_the_last_with_geometric_steps_between():
    found = counts(100.0)
    assert (found[0], found[-1]) == (100, 1)
    assert found == [int(100 * 100 ** (-c / 9)) for c in range(10)]


def test_a_factor_of_one_keeps_all():
    assert counts(1.0) == [100] * 10


def test_the_choice_depends_on_the_seed_alone():
    first = long_tailed_rows(LABELS, 20.0, 10, seed=0)
    assert torch.equal(first, long_tailed_rows(LABELS, 20.0, 10, seed=0))
    assert not torch.equal(first, long_tailed_rows(LABELS, 20.0, 10, seed=1))


@pytest.mark.parametrize("factor", [0.5, float("inf"), float("nan")])
def test_other_factors_are_refused(factor):
    with pytest.raises(UsageError, match="allowed: 1"):
        long_tailed_rows(LABELS, factor, 10, seed=0)


def test_an_empty_class_is_refused():
    with pytest.raises(UsageError, match="10 has none"):
        long_tailed_rows(LABELS, 10.0, 11, seed=0)

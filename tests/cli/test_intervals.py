"""Numbers of values are planned so that the interval finds an effect with a chance of 80%."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from tutelage_cli.intervals import (
    MOST_VALUES,
    POWER,
    mean_interval,
    power,
    spread_interval,
    values_needed,
)

REPEATS = 100_000
ERROR = 3 * (POWER * (1 - POWER) / REPEATS) ** 0.5
"""of a simulated power, three standard errors"""


def simulated(effect: float, spread: float, n: int) -> float:
    """The share of simulated experiments whose one-sided t-test has p below 5%."""
    draws = np.random.default_rng(n).normal(effect, spread, (REPEATS, n))
    tests: Any = stats.ttest_1samp(draws, 0.0, axis=1, alternative="greater")
    return float((tests.pvalue < 0.05).mean())


@pytest.mark.parametrize(
    ("effect", "spread"), [(3.0, 1.0), (0.02, 0.01), (1.0, 1.0), (1.5, 2.0), (0.6, 1.24)]
)
def test_the_planned_number_has_the_power_and_one_less_has_not(effect, spread):
    n = values_needed(effect, spread)
    assert n is not None
    assert simulated(effect, spread, n) > POWER
    assert simulated(effect, spread, n) == pytest.approx(power(effect, spread, n), abs=ERROR)
    assert simulated(effect, spread, n - 1) < POWER


def test_power_is_the_chance_that_the_interval_of_all_verdicts_lies_above_zero():
    draws = np.random.default_rng(0).normal(1.0, 1.5, (4000, 6))
    found = np.mean([mean_interval(list(map(float, row))).above for row in draws])
    assert found == pytest.approx(power(1.0, 1.5, 6), abs=3 * (0.25 / 4000) ** 0.5)
    assert power(0.0, 1.5, 6) == pytest.approx(0.05)


def test_an_effect_below_zero_needs_as_many_values_as_one_above():
    assert values_needed(-0.7, 1.0) == values_needed(0.7, 1.0) == values_needed(7.0, 10.0)


def test_a_smaller_effect_needs_more_values_by_the_square():
    few, many = values_needed(0.01, 1.0), values_needed(0.001, 1.0)
    normal = (stats.norm.ppf(0.95) + stats.norm.ppf(POWER)) ** 2
    assert few == pytest.approx(normal * 1e4, rel=1e-3)
    assert many is None
    assert normal * 1e6 > MOST_VALUES


@pytest.mark.parametrize(("effect", "needed"), [(0.0, None), (0.1, 2), (-0.1, 2)])
def test_values_without_spread_need_two_or_cannot_differ(effect, needed):
    assert values_needed(effect, 0.0) == needed
    assert values_needed(0.0, 1.0) is None


def test_the_interval_of_a_spread_holds_the_true_one_nine_times_in_ten():
    draws = np.random.default_rng(0).normal(0.0, 2.0, (20_000, 3)).std(axis=1, ddof=1)
    low, high = np.array([spread_interval(spread, 3) for spread in draws.tolist()]).T
    assert (low < 2.0).mean() == pytest.approx(0.95, abs=0.005)
    assert (high > 2.0).mean() == pytest.approx(0.95, abs=0.005)


def test_an_interval_knows_the_spread_of_its_values():
    assert mean_interval([1.0, 3.0]).spread == pytest.approx(2**0.5)

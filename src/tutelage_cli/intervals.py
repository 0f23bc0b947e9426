"""The statistical rule of all verdicts: the 90% interval of a mean difference; its power."""

from bisect import bisect_left
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import chdtri, nctdtr, stdtr, stdtrit

from tutelage.errors import UsageError

LEVEL = 0.9
"""confidence level of all verdicts: 5% on each side"""
POWER = 0.8
"""chance of finding an effect with which numbers of values are planned"""
MOST_VALUES = 1_000_000
"""values that are planned at most"""


class Interval(NamedTuple):
    """The mean of n values and its confidence interval."""

    n: int
    mean: float
    low: float
    high: float
    p: float
    """one-sided: chance of such a mean, or a larger one, where the true one is 0"""
    spread: float
    """sample standard deviation of the values"""

    @property
    def above(self) -> bool:
        """Whether the interval lies above 0."""
        return self.low > 0

    @property
    def below(self) -> bool:
        """Whether the interval lies below 0."""
        return self.high < 0


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Student's t interval of a mean; of differences paired by seed, the rule of all verdicts.

    A difference is shown where the 90% interval of its mean holds no 0.
    """
    n = len(values)
    if n < 2:
        raise UsageError(f"{n} values give no interval; allowed: 2 and above, better 5.")
    mean, spread = fmean(values), stdev(values)
    error = spread / n**0.5
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * error
    same = 0.0 if mean > 0 else 1.0
    p = float(stdtr(n - 1, -mean / error)) if error > 0 else same
    return Interval(n, mean, mean - reach, mean + reach, p, spread)


def power(effect: float, spread: float, n: int) -> float:
    """Chance that the 90% interval of n values, 2 or more, lies above 0.

    By the noncentral t distribution; ``spread`` is their true standard deviation.
    """
    if spread == 0:
        return float(effect > 0)
    bound = stdtrit(n - 1, (1 + LEVEL) / 2)
    return float(1 - nctdtr(n - 1, effect / spread * n**0.5, bound))


def values_needed(effect: float, spread: float) -> int | None:
    """The smallest number of values whose interval finds an effect with a chance of 80%.

    The effect may lie on either side of 0. None where a million values are too few.
    """
    counts = range(2, MOST_VALUES + 1)
    place = bisect_left(counts, POWER, key=lambda n: power(abs(effect), spread, n))
    return counts[place] if place < len(counts) else None


def spread_interval(spread: float, n: int) -> tuple[float, float]:
    """Confidence interval of the standard deviation of n normal values."""
    sides = ((1 + LEVEL) / 2, (1 - LEVEL) / 2)
    low, high = (spread * ((n - 1) / float(chdtri(n - 1, 1 - side))) ** 0.5 for side in sides)
    return low, high

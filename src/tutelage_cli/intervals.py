"""The statistical rule of all verdicts: the 90% interval of a mean difference."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.stats import t as student_t

from tutelage.errors import UsageError

LEVEL = 0.9
"""confidence level of all verdicts: 5% on each side"""


class Interval(NamedTuple):
    """The mean of n values and its confidence interval."""

    n: int
    mean: float
    low: float
    high: float
    p: float
    """one-sided: chance of such a mean, or a larger one, where the true one is 0"""

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
    mean, error = fmean(values), stdev(values) / n**0.5
    reach = float(student_t.ppf((1 + level) / 2, n - 1)) * error
    same = 0.0 if mean > 0 else 1.0
    p = float(student_t.sf(mean / error, n - 1)) if error > 0 else same
    return Interval(n, mean, mean - reach, mean + reach, p)

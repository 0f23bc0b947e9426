"""Claims as comparisons of measured numbers, tested by the interval of their difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, NamedTuple

from tutelage_cli.intervals import mean_interval

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
SMALLER = "smaller than the paper's"
"""the verdict where the interval holds 0 and lies below half of the printed difference"""
UNDECIDABLE = "cannot be decided here"
"""the verdict on what is undecided and needs more seeds or hours than a bound"""
RULE = (
    "Every comparison is tested over seeds: a one-sided t-test, paired by seed, at the 5% "
    "level. It holds if the 90% interval of the mean difference lies on the claimed side, does "
    "not hold if the interval lies on the other side, and is undecided otherwise, or with one "
    "seed. A claim holds if all its comparisons hold, and does not hold if one does not."
)

Measure = tuple[str, str]
"""arm and metric"""
Arms = Mapping[str, Mapping[str, Sequence[float | None]]]
"""by arm and metric one value a seed; None where there is none, or none that is finite"""


@dataclass(frozen=True)
class Comparison:
    """A mean over seeds lies on one side of a bound, or of another arm's mean.

    With ``d_s`` the difference of seed s in the claimed direction less ``margin``, the claim
    is ``E[d] > 0``.
    """

    what: Measure
    side: Literal["above", "below"]
    other: Measure | float
    margin: float = 0.0
    """by how much more; negative: "not much worse" """

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measured numbers that it compares."""
        return (self.what, self.other) if isinstance(self.other, tuple) else (self.what,)

    @property
    def text(self) -> str:
        """The comparison as text."""
        other = _named(self.other) if isinstance(self.other, tuple) else f"{self.other:g}"
        by = f" by more than {self.margin:g}" if self.margin else ""
        return f"{_named(self.what)} {self.side} {other}{by}"


class Claim(NamedTuple):
    """What a paper says, as comparisons that all have to hold."""

    text: str
    comparisons: tuple[Comparison, ...]
    of_paper: bool = True
    """False: an expectation of ours, which is tested but not part of the recipe's verdict"""


class ComparisonResult(NamedTuple):
    """One comparison and its test over seeds."""

    text: str
    measures: tuple[Measure, ...]
    verdict: str
    n: int
    """seeds that both sides have"""
    mean: float | None
    """of the differences in the claimed direction, less the margin"""
    low: float | None
    """lower end of their mean's 90% interval"""
    high: float | None
    p: float | None
    """one-sided: chance of such a mean, or a larger one, where there is no difference"""
    spread: float | None
    """sample standard deviation of the differences"""
    why: str
    """why it is undecided; otherwise empty"""


def evaluate(comparison: Comparison, arms: Arms) -> ComparisonResult:
    """Test one comparison by the interval of its mean difference."""
    columns = [arms[arm][metric] for arm, metric in comparison.measures]
    rows = [row for row in zip(*columns, strict=True) if all(_finite(v) for v in row)]
    lost = len(columns[0]) - len(rows)
    if len(rows) < 2 or lost:
        why = f"{lost} seeds without a finite number" if lost else "one seed gives no interval"
        known_fields = comparison.text, comparison.measures, UNDECIDED, len(rows)
        return ComparisonResult(*known_fields, None, None, None, None, None, why)
    return _tested(comparison, [difference(comparison, row) for row in rows])


def _tested(comparison: Comparison, differences: Sequence[float]) -> ComparisonResult:
    found = mean_interval(differences)
    verdict = HOLDS if found.above else FAILS if found.below else UNDECIDED
    why = "the interval holds zero" if verdict == UNDECIDED else ""
    known_fields = comparison.text, comparison.measures, verdict, found.n
    return ComparisonResult(
        *known_fields, found.mean, found.low, found.high, found.p, found.spread, why
    )


def combined_verdict(verdicts: Sequence[str]) -> str:
    """The verdict on several comparisons that all have to hold."""
    for verdict in (FAILS, SMALLER, UNDECIDABLE):
        if verdict in verdicts:
            return verdict
    return HOLDS if set(verdicts) == {HOLDS} else UNDECIDED


def difference(comparison: Comparison, row: Sequence[float]) -> float:
    """The difference of measured numbers in the claimed direction, less the margin."""
    other = row[1] if isinstance(comparison.other, tuple) else comparison.other
    gain = row[0] - other if comparison.side == "above" else other - row[0]
    return gain - comparison.margin


def _finite(value: float | None) -> bool:
    return value is not None and isfinite(value)


def _named(measure: Measure) -> str:
    return f"{measure[1]} of {measure[0]}"

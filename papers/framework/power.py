"""Sample size: the seeds and hours that would decide an undecided comparison."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from papers.framework.paper_tables import printed
from papers.framework.recipe import Recipe
from tutelage_cli.claims import (
    FAILS,
    HOLDS,
    SMALLER,
    UNDECIDABLE,
    UNDECIDED,
    Comparison,
    ComparisonResult,
    difference,
)
from tutelage_cli.intervals import POWER, spread_interval, values_needed

MOST_SEEDS, MOST_HOURS = 1000, 72
"""a comparison that needs more seeds or hours cannot be decided here"""
SIZE_RULE = (
    "If the 90% interval contains 0 and lies below half of the difference that the paper "
    f'prints, both minus the margin, the verdict is "{SMALLER}": the sign of the effect is '
    "undecided, and an effect of the printed size is excluded. (This rule was added post hoc, "
    "when the results at mini scale were known.)"
)
CORES = 2  # CPU cores for which hours are computed, with one job on each
PRINTED, MEASURED = "the paper's", "seen here"
POWER_RULE = (
    "For an undecided comparison: the number of seeds, including those that ran, with which "
    f"its test finds an effect with {POWER:.0%} power, by the noncentral t distribution and "
    "the measured spread (standard deviation) of the differences; and the hours that all arms "
    f"take with this number of seeds on {CORES} CPU cores, or on the GPU that they ran on, "
    "computed from the seconds that their jobs took. The effect is the paper's: the difference "
    "of its printed numbers minus the margin. The effect measured here, which is as uncertain "
    "as its interval, takes its place if the paper prints none, or if the seeds that ran had "
    "this power for the paper's and did not find it. In brackets: the seeds at the ends of the "
    "90% interval of the spread, which is wide with few seeds. A claim needs the seeds of the "
    "most demanding of its undecided comparisons; the power for several together is lower than "
    f"for each. A claim that needs more than {MOST_SEEDS:,} seeds or {MOST_HOURS} hours cannot "
    "be decided here, and neither can one for which every seed gave the same difference, or "
    "for which the effect is 0."
)


class SampleSize(NamedTuple):
    """The seeds and hours with which the test of a comparison finds an effect."""

    effect: float
    """in the claimed direction, less the margin"""
    source: str
    """``PRINTED`` or ``MEASURED``"""
    printed: float | None
    """the paper's effect; None where it prints none"""
    seeds: int | None
    """None: more than ``MOST_VALUES``"""
    fewest: int | None
    """seeds at the lower end of the spread's 90% interval"""
    most: int | None
    """seeds at its upper end"""
    hours: float | None

    @property
    def affordable(self) -> bool:
        """Whether seeds and hours are within ``MOST_SEEDS`` and ``MOST_HOURS``."""
        if self.seeds is None or self.hours is None:
            return False
        return self.seeds <= MOST_SEEDS and self.hours <= MOST_HOURS


def sample_size(
    judged: ComparisonResult, effect: float | None, seconds: float
) -> SampleSize | None:
    """The sample size of a comparison; None if it is decided, or ran with one seed.

    Args:
        judged: The test of the comparison.
        effect: The difference that the paper prints; None if it prints none.
        seconds: See ``seconds_per_seed``.
    """
    if judged.verdict != UNDECIDED or judged.mean is None or judged.spread is None:
        return None
    chosen, source = judged.mean, MEASURED
    if effect is not None:
        count = values_needed(effect, judged.spread)
        if count is None or count > judged.n:
            chosen, source = effect, PRINTED
    low, high = spread_interval(judged.spread, judged.n)
    seeds, fewest, most = (values_needed(chosen, s) for s in (judged.spread, low, high))
    hours = None if seeds is None else seeds * seconds / 3600
    return SampleSize(chosen, source, effect, seeds, fewest, most, hours)


def seconds_per_seed(content: Mapping[str, Any]) -> float:
    """Seconds of all arms with one seed: two jobs at a time on the CPU, one on a GPU."""
    on_cpu = all(name.startswith("CPU") for name in content["hardware"])
    return content["seconds"] / len(content["seeds"]) / (CORES if on_cpu else 1)


def judged_with_power(
    judged: ComparisonResult, effect: float | None, seconds: float
) -> dict[str, Any]:
    """The test of a comparison and its sample size, as plain values.

    Args:
        judged: The test of the comparison.
        effect: The difference that the paper prints; None if it prints none.
        seconds: See ``seconds_per_seed``.
    """
    need = sample_size(judged, effect, seconds)
    if need is not None and is_smaller(judged, effect):
        judged = judged._replace(
            verdict=SMALLER, why=f"it lies below half of the paper's {effect:.4g}"
        )
    elif need is not None and not need.affordable:
        judged = judged._replace(verdict=UNDECIDABLE)
    return {**judged._asdict(), "needed": None if need is None else need._asdict()}


def is_smaller(judged: ComparisonResult, effect: float | None) -> bool:
    """Whether the interval lies below half of the paper's effect, and its spread is not 0."""
    if effect is None or judged.high is None:
        return False
    return bool(judged.spread) and judged.high < effect / 2


def printed_effect(recipe: Recipe, comparison: Comparison) -> float | None:
    """The difference that the paper prints for a comparison; None if it prints none."""
    cells = [_cell(recipe, *measure) for measure in comparison.measures]
    if None in cells:
        return None
    row = [printed(recipe.paper, recipe.table, *cell).value for cell in cells if cell]
    return round(difference(comparison, row), 10)


def _cell(recipe: Recipe, arm: str, metric: str) -> tuple[str, str] | None:
    other = recipe.printed_as.get(metric, metric)
    return recipe.printed.get((arm, metric)) or recipe.printed.get((arm, other))


def open_claims(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The claims of a stored result whose verdict is neither holds nor does not hold."""
    return [claim for claim in content["claims"] if claim["verdict"] not in (HOLDS, FAILS)]


def decisive_comparison(claim: Mapping[str, Any]) -> Mapping[str, Any]:
    """The comparison that decides a claim's verdict.

    Of those with the claim's verdict, it has the largest p value, whether the claim holds or
    not; if the claim is undecided, it needs the most seeds.
    """
    of_verdict = [j for j in claim["comparisons"] if j["verdict"] == claim["verdict"]]
    return max(of_verdict, key=_demand)


def _demand(judged: Mapping[str, Any]) -> float:
    if need := judged["needed"]:
        return float(need["seeds"] or "inf")
    return judged["p"] or 0.0

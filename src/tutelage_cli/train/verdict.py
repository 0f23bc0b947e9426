"""What to do with the checked examples, in one sentence: teach, or the best control."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from tutelage_cli.intervals import mean_interval
from tutelage_cli.train.names import BASELINES, CONTROLS, OLA, POLICIES

UNTAUGHT = "untaught"
DO = {
    UNTAUGHT: "Train untaught",
    "checked-only": "Train on the checked examples alone",
    "fine-tuned": "Fine-tune",
    "checked-included": "Include the checked examples",
    "early-stopped": "Stop early",
    "pruned": "Prune",
    "forward-corrected": "Correct",
    "cross-fitted": "Cross-fit",
}
"""what to do where an arm without a teacher is best"""
BETTER_SEEDS = 5
"""seeds that are recommended for a verdict"""
OTHERS = {*BASELINES, *POLICIES} - {OLA}
"""arms of ``--teacher`` that learn nothing from the checked examples, or are others' methods"""

Results = Sequence[Mapping[str, Any]]


def split_arms(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Which arms are judged, and which they are judged against."""
    named = list(names)
    controls = [n for n in named if n == UNTAUGHT or n in CONTROLS]
    others = [n for n in named if n in OTHERS]
    taught = [n for n in named if n not in controls and n not in others]
    return (taught, controls + others) if taught else (others, controls)


def best_control(arms: Mapping[str, Results]) -> str:
    """The control with the best mean test accuracy; the first of several."""
    _, controls = split_arms(arms)
    return max(controls, key=lambda name: _mean(arms[name]))


def verdict(arms: Mapping[str, Results]) -> list[str]:
    """What to do, and how each taught arm did beside the best control.

    Of several taught arms the one is judged that predicts the checked examples best.
    """
    taught, _ = split_arms(arms)
    if not taught:
        return []
    than = best_control(arms)
    chosen = max(taught, key=lambda name: _by_checked(arms[name]))
    lines = [_advice(chosen, arms[chosen], than, arms[than])]
    return lines + [_beside(name, arms[name], than, arms[than]) for name in taught]


def _advice(name: str, own: Results, than: str, others: Results) -> str:
    do = DO.get(than, f"Use {than}")
    if len(own) < 2:
        return (
            f"No verdict: one seed says nothing about chance; give --seeds 2 or more, better "
            f"{BETTER_SEEDS}. Highest control: {_told(than, others)}; {_told(name, own)}."
        )
    found = mean_interval(_differences(own, others))
    interval = f"90% interval {found.low:+.1f} to {found.high:+.1f} over {found.n} seeds"
    if found.above:
        return (
            f"Teach: {_told(name, own)} is {found.mean:.1f} points of test accuracy above the "
            f"best control, {_told(than, others)}; {interval}."
        )
    if found.below:
        return (
            f"{do}: {_told(than, others)} is {-found.mean:.1f} points of test accuracy above "
            f"{_told(name, own)}; {interval} of the taught one less this."
        )
    sides = (
        f"{_told(name, own)} less the best control, {_told(than, others)}: {found.mean:+.1f} "
        f"points of test accuracy, {interval}."
    )
    if found.mean >= 0 and _cost(own) < _cost(others):
        return f"Neither is shown to be better, and teaching is cheaper. {sides}"
    if _cost(others) <= _cost(own):
        return f"{do}: neither is shown to be better, and this is cheaper. {sides}"
    return f"{do}: it has the higher mean, though neither is shown to be better. {sides}"


def _beside(name: str, own: Results, than: str, others: Results) -> str:
    gains = _differences(own, others)
    better = sum(gain > 0 for gain in gains)
    interval = ""
    if len(gains) > 1:
        found = mean_interval(gains)
        interval = f", 90% interval {found.low:+.1f} to {found.high:+.1f}"
    return (
        f"Taught by {name}: {fmean(gains):+.1f} points of test accuracy over {than}{interval}; "
        f"better in {better} of {len(gains)} seeds."
    )


def _told(name: str, results: Results) -> str:
    return f"{name} ({100 * _mean(results):.1f}%, {_cost(results):.1f} times the time)"


def _differences(own: Results, others: Results) -> list[float]:
    pairs = zip(own, others, strict=True)
    return [100 * (one["test_accuracy"] - other["test_accuracy"]) for one, other in pairs]


def _mean(results: Results) -> float:
    return fmean(result["test_accuracy"] for result in results)


def _cost(results: Results) -> float:
    return fmean(result["ratio"] for result in results)


def _by_checked(results: Results) -> float:
    # runs of an earlier release know the accuracy alone
    key = "held_out_log_likelihood"
    known = all(key in result for result in results)
    return fmean(result[key if known else "held_out_accuracy"] for result in results)

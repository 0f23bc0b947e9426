"""The verdict: whether to teach or to take the best control, as a sentence."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from tutelage_cli.intervals import mean_interval
from tutelage_cli.train.names import BASELINES, CONTROLS, OLA, POLICIES

UNTAUGHT, CROSS_FITTED = "untaught", "cross-fitted"
ADVICE = {
    UNTAUGHT: "Train untaught",
    "checked-only": "Train on the checked examples alone",
    "fine-tuned": "Fine-tune",
    "checked-included": "Include the checked examples",
    "early-stopped": "Stop early",
    "regularised": "Regularise",
    "pruned": "Prune",
    "forward-corrected": "Correct",
    CROSS_FITTED: "Cross-fit",
}
"""advice where a control is best"""
BETTER_SEEDS = 5
"""seeds recommended for a verdict"""
OTHERS = {*BASELINES, *POLICIES} - {OLA}
"""arms of ``--teacher`` that do not learn from the checked examples, or are baselines"""

Results = Sequence[Mapping[str, Any]]


def split_arms(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split arms into those that a verdict is about and their controls."""
    named = list(names)
    controls = [n for n in named if n == UNTAUGHT or n in CONTROLS]
    others = [n for n in named if n in OTHERS]
    taught = [n for n in named if n not in controls and n not in others]
    return (taught, controls + others) if taught else (others, controls)


def best_control(arms: Mapping[str, Results]) -> str:
    """The control with the best mean test accuracy; the first of several."""
    _, controls = split_arms(arms)
    return max(controls, key=lambda name: _mean(arms[name]))


def gains_over_controls(arms: Mapping[str, Results], taught: str) -> dict[str, float]:
    """Mean test accuracy of an arm less that of each control, in percentage points."""
    controls = [arm for arm in arms if arm == UNTAUGHT or arm in CONTROLS]
    gains = (100 * (_mean(arms[taught]) - _mean(arms[arm])) for arm in controls)
    return {arm: round(gain, 2) for arm, gain in zip(controls, gains, strict=True)}


def verdict(arms: Mapping[str, Results]) -> list[str]:
    """The advice, each taught arm less the best control, and cross-fitted less untaught.

    Of several taught arms the advice is about the one that predicts the checked examples best.
    """
    taught, _ = split_arms(arms)
    lines: list[str] = []
    if taught:
        control = best_control(arms)
        chosen = max(taught, key=lambda name: _held_out_score(arms[name]))
        lines += [_advice(chosen, arms[chosen], control, arms[control])]
        lines += [
            _comparison(f"Taught by {name}", arms[name], control, arms[control])
            for name in taught
        ]
    if CROSS_FITTED in arms:
        what = "What cross-fitting gains in all"
        lines.append(_comparison(what, arms[CROSS_FITTED], UNTAUGHT, arms[UNTAUGHT]))
    return lines


def _advice(name: str, taught: Results, control: str, baseline: Results) -> str:
    advice = ADVICE.get(control, f"Use {control}")
    score, best = _score(name, taught), _score(control, baseline)
    if len(taught) < 2:
        return (
            "No verdict: one seed says nothing about chance; give --seeds 2 or more, better "
            f"{BETTER_SEEDS}. Highest control: {best}; {score}."
        )
    gain = mean_interval(_differences(taught, baseline))
    interval = f"90% interval {gain.low:+.1f} to {gain.high:+.1f} over {gain.n} seeds"
    if gain.above:
        return (
            f"Teach: {score} is {gain.mean:.1f} points of test accuracy above the best "
            f"control, {best}; {interval}."
        )
    if gain.below:
        return (
            f"{advice}: {best} is {-gain.mean:.1f} points of test accuracy above {score}; "
            f"{interval} of the taught one less this."
        )
    sides = (
        f"{score} less the best control, {best}: {gain.mean:+.1f} points of test accuracy, "
        f"{interval}."
    )
    if gain.mean >= 0 and _cost(taught) < _cost(baseline):
        return f"Neither is shown to be better, and teaching is cheaper. {sides}"
    if _cost(baseline) <= _cost(taught):
        return f"{advice}: neither is shown to be better, and this is cheaper. {sides}"
    return f"{advice}: it has the higher mean, though neither is shown to be better. {sides}"


def _comparison(what: str, taught: Results, control: str, baseline: Results) -> str:
    gains = _differences(taught, baseline)
    ending = " in one seed"
    if len(gains) > 1:
        difference, better = mean_interval(gains), sum(gain > 0 for gain in gains)
        ending = (
            f", 90% interval {difference.low:+.1f} to {difference.high:+.1f}; better in "
            f"{better} of {len(gains)} seeds"
        )
    mean = f"{fmean(gains):+.1f} points of test accuracy"
    return f"{what}: {mean} over {control}{ending}."


def _score(name: str, results: Results) -> str:
    return f"{name} ({100 * _mean(results):.1f}%, {_cost(results):.1f} times the time)"


def _differences(taught: Results, baseline: Results) -> list[float]:
    pairs = zip(taught, baseline, strict=True)
    return [100 * (one["test_accuracy"] - other["test_accuracy"]) for one, other in pairs]


def _mean(results: Results) -> float:
    return fmean(result["test_accuracy"] for result in results)


def _cost(results: Results) -> float:
    return median(result["ratio"] for result in results)  # as the table has it


def _held_out_score(results: Results) -> float:
    # runs of an earlier release have the accuracy only
    key = "held_out_log_likelihood"
    known = all(key in result for result in results)
    return fmean(result[key if known else "held_out_accuracy"] for result in results)

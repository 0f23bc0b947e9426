"""Numbers and verdicts in words, the same in the terminal and on the page."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from papers.framework.results import MISSED, WITHIN, Row

DASH = "\N{EN DASH}"
HEADER = ("arm", "metric", "paper", "ours, mean ± std", "n", "printed number")


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table in words."""
    n = len(row.known)
    lost = len(row.values) - n
    seeds = f"{n} ({lost} not finite or failed)" if lost else f"{n}"
    return row.arm, row.metric, paper(row.paper), ours(row.known), seeds, row.match or DASH


def paper(cell: Mapping[str, Any] | None) -> str:
    """The paper's number as it is printed there."""
    if cell is None:
        return DASH
    spread = cell["spread"]
    beside = "" if spread is None else f" ± {spread:.{cell['decimals']}f}"
    return f"{cell['value']:.{cell['decimals']}f}{beside}"


def ours(values: Sequence[float]) -> str:
    """Mean and sample standard deviation over seeds."""
    if not values:
        return DASH
    mean = number(fmean(values))
    return mean if len(values) < 2 else f"{mean} ± {number(stdev(values))}"


def number(value: float) -> str:
    """A number with about four digits."""
    size = abs(value)
    if size and size < 0.0005:
        return f"{value:.1e}"
    return f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 1000 else f"{value:,.0f}"


def reason(judged: Mapping[str, Any]) -> str:
    """What a comparison's verdict rests on."""
    if judged["mean"] is None:
        return f"{judged['why']} (n = {judged['n']})"
    low, high = number(judged["low"]), number(judged["high"])
    why = f"; {judged['why']}" if judged["why"] else ""
    return (
        f"difference {number(judged['mean'])}, 90% interval [{low}, {high}], "
        f"one-sided p = {judged['p']:.2g}, n = {judged['n']}{why}"
    )


def score(table: Sequence[Row]) -> str:
    """How many of the paper's numbers came out, in one sentence."""
    shown = [row for row in table if row.match]
    if not shown:
        return "The paper prints no number for these arms."
    good = sum(row.match == WITHIN for row in shown)
    missed = [f"{row.metric} of {row.arm}" for row in shown if row.match == MISSED]
    text = f"{good} of {len(shown)} printed numbers lie within our intervals"
    rest = len(shown) - good - len(missed)
    text += f", {rest} open" if rest else ""
    return f"{text}; not reproduced: {', '.join(missed)}." if missed else f"{text}."


def spoken(claim: Mapping[str, Any]) -> str:
    """A claim as it is shown."""
    return claim["text"] if claim["of_paper"] else f"(Not the paper's.) {claim['text']}"

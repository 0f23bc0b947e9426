"""What one gradient-alignment reward costs, here and with other libraries.

    python -m benchmarks.alignment [--cases NAME ...] [--rounds 9] [--out FILE]

Time is CPU time of one torch thread, beyond that of two plain training steps, in percent of
ONE: every round runs all variants in alternating order, and what is printed is the median of
the rounds with its quartiles. Memory is the peak of a fresh process above what it holds once
student and data are built, in percent more than that of plain steps. Error (in norm) and rank
correlation are against a backward pass per example in float64, on sixteen examples.

A variant that a library refuses or that is not installed says so.
"""

import statistics
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from benchmarks.alignment.peers import PEERS
from benchmarks.alignment.students import STUDENTS
from benchmarks.alignment.variants import OURS, Once, Pair, naive
from benchmarks.command import Benchmark, Row, main, size
from benchmarks.hypergradients.measure import Build, own_peak, peak, timed

VARIANTS: dict[str, Callable[[Pair], Once]] = OURS | PEERS | {"naive loop": naive}
FEW = size(16, 3)
REFUSALS = (RuntimeError, AttributeError, ValueError, TypeError, KeyError)
"""what libraries raise at a student that they cannot treat"""


def ranks(values: Tensor) -> Tensor:
    """Centred ranks.

    Args:
        values: Any numbers [n].

    Returns:
        [n].
    """
    found = values.argsort().argsort().double()
    return found - found.mean()


@cache
def expected_of(student: str) -> Tensor:
    """Rewards of a few examples by the naive loop in float64.

    Args:
        student: The student's name.

    Returns:
        [B].
    """
    return naive(Pair(student, torch.float64, FEW))()


def accuracy(student: str, variant: str) -> dict[str, Any]:
    """Error and rank correlation on a few examples.

    Args:
        student: The student's name.
        variant: The variant's.

    Returns:
        ``error`` and ``spearman``, or why there is none under ``missing``.
    """
    expected = expected_of(student)
    try:
        got = VARIANTS[variant](Pair(student, torch.float32, FEW))().double()
    except ImportError as error:
        return {"missing": f"not installed ({error.name})"}
    except REFUSALS as error:
        return {"missing": f"{type(error).__name__}: {str(error).splitlines()[0][:90]}"}
    a, b = ranks(got), ranks(expected)
    gap = float((got - expected).norm() / expected.norm())
    return {"error": gap, "spearman": float(a @ b / (a.norm() * b.norm()))}


def twice(student: str, variant: str) -> Build:
    """Two passes of a variant."""

    def build(dtype: torch.dtype) -> Once:
        once = VARIANTS[variant](Pair(student, dtype))

        def both() -> Tensor:
            once()
            return once()

        return both

    return build


def measured(student: str, rounds: int) -> list[Row]:
    """Measure variants on one student.

    Args:
        student: Its name.
        rounds: How many are counted.

    Returns:
        One row per variant.
    """
    # a step of a wide network takes seconds, the naive loop minutes
    variants = [v for v in VARIANTS if v != "naive loop" or not student.startswith("wrn")]
    rows: dict[str, Row] = {v: {} if v == "plain" else accuracy(student, v) for v in variants}
    able = [v for v in variants if "missing" not in rows[v]]
    ready = {v: VARIANTS[v](Pair(student, torch.float32)) for v in able if v != "naive loop"}
    times = timed(ready, rounds)
    if "naive loop" in able:
        slow = {"naive loop": naive(Pair(student, torch.float32)), "plain": ready["plain"]}
        once = timed(slow, 1)
        ratio = once["naive loop"][0] / once["plain"][0]
        rows["naive loop"] |= {"time": 200 * (ratio - 1), "quartiles": None, "n": 1}
    peaks = {v: peak("benchmarks.alignment", student, v, twice(student, v)) for v in able}
    for variant in ready:
        pairs = zip(times[variant], times["plain"], strict=True)
        low, middle, high = statistics.quantiles(
            [200 * (a / b - 1) for a, b in pairs], n=4, method="inclusive"
        )
        rows[variant] |= {"time": middle, "quartiles": [low, high], "n": rounds}
    for variant in able:
        more = 100 * (peaks[variant] / peaks["plain"] - 1)
        rows[variant] |= {"peak_mib": peaks[variant], "memory": more}
    return [{"student": student, "variant": v} | rows[v] for v in variants]


def line(row: Row) -> str:
    """A variant with the time and memory that it adds in percent, and its error."""
    if "missing" in row:
        return f"{row['variant']:24} {row['missing']}"
    spread = "" if row["quartiles"] is None else "[{:.0f}, {:.0f}]".format(*row["quartiles"])
    text = f"{row['variant']:24} {row['time']:+7.0f} % {spread:14} n={row['n']:<3}"
    text += f"{row['peak_mib']:7.0f} MiB {row['memory']:+6.0f} %"
    return text + (f"   {row['error']:.1e}  {row['spearman']:.3f}" if "error" in row else "")


def ratio(row: Row) -> float | None:
    """Time of both steps in that of two plain ones."""
    return 1 + row["time"] / 200 if "time" in row else None


BENCHMARK = Benchmark(
    cases=tuple(STUDENTS),
    measure=measured,
    line=line,
    rounds=9,
    names=("student", "variant"),
    ratio=ratio,
    peak=lambda student, variant: own_peak(twice(student, variant)),
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

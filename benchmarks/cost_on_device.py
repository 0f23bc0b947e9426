"""What hypergradients and rewards cost on a device: ours, plain steps, peers where they import.

    python -m benchmarks.cost_on_device [--device cuda] [--cases NAME ...] [--out FILE]

The cases are those of `benchmarks.hypergradients` and `benchmarks.alignment`, in float32 as
torch has it by default: on a card that may be TF32 in convolutions. Time is between two of the
card's events (CPU time on the CPU): the median over rounds of the ratio to plain steps taken in
turn. Memory is the peak of torch's allocator, models and data included. The error is relative,
in norm, to the same in float64.
"""

import argparse
import gc
import statistics
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.alignment.peers import PEERS
from benchmarks.alignment.students import STUDENTS
from benchmarks.alignment.variants import OURS, Pair
from benchmarks.hypergradients.__main__ import CASES as HYPERGRADIENTS
from benchmarks.hypergradients.measure import Build, Case, Once
from papers.framework.cost import interleaved, peak_bytes
from papers.framework.jobs import hardware
from tutelage.storage.json_files import environment, write_json

MIB = 2**20


def unrewarded(pair: Pair) -> Once:
    """Two steps without a reward; the unit.

    Args:
        pair: The student.

    Returns:
        What takes them and gives nothing that could be compared.
    """
    once = OURS["plain"](pair)

    def without_answer() -> None:
        once()

    return without_answer


def reward_case(student: str) -> Case:
    """Rewards of one student, as a case like the others.

    Args:
        student: Its name.

    Returns:
        The case; the reference is forward mode.
    """

    def build(way: Callable[[Pair], Once], dtype: torch.dtype) -> Once:
        return way(Pair(student, dtype))

    ways = {**OURS, **PEERS, "plain": unrewarded}
    variants: dict[str, Build] = {name: partial(build, way) for name, way in ways.items()}
    return Case("plain", variants["forward"], variants)


CASES: Mapping[str, Case] = {
    **{f"reward, {name}": reward_case(name) for name in STUDENTS},
    **HYPERGRADIENTS,
}
FIRST = (
    "one step, batch norm",
    "reward, wrn-16-4, batch norm",
    "one step, group norm",
    "reward, wrn-16-4, group norm",
    "reward, transformer",
    "adam, 100 steps",
    "momentum, 100 steps",
    "implicit, 1 term",
)
"""those measured if none is named, most valuable first"""


def built(build: Build, dtype: torch.dtype, device: torch.device) -> Once:
    """A variant on a device.

    Args:
        build: The variant.
        dtype: Of all numbers.
        device: Where its models and data lie.

    Returns:
        What does it once.
    """
    with torch.device(device):
        return build(dtype)


def measured(case: Case, rounds: int, device: torch.device) -> list[dict[str, Any]]:
    """Measure the variants of a case.

    Args:
        case: The case.
        rounds: How often each is timed.
        device: Where.

    Returns:
        One row per variant; one that fails says why under ``missing``.
    """
    want = built(case.reference, torch.float64, device)()
    unit = built(case.variants[case.unit], torch.float32, device)
    unit()
    plain = peak_bytes(partial(built, case.variants[case.unit], torch.float32, device), device)
    rows = []
    for name, build in case.variants.items():
        row: dict[str, Any] = {"variant": name}
        try:
            once = built(build, torch.float32, device)
            row["error"] = gap(once(), want)
            times = interleaved({"plain": unit, name: once}, rounds, device)
            del once
            peak = peak_bytes(partial(built, build, torch.float32, device), device)
        except Exception as error:  # noqa: BLE001 - peers refuse in many ways; the rest goes on
            rows.append(row | {"missing": f"{type(error).__name__}: {error}"[:200]})
            continue
        ratios = [a / b for a, b in zip(times[name], times["plain"], strict=True)]
        row |= {"time": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
        row |= {"n": rounds, "seconds": statistics.median(times[name])}
        rows.append(row | {"peak_mib": peak / MIB, "memory": peak / plain})
    return rows


def gap(got: Tensor | None, want: Tensor | None) -> float | None:
    """An answer's relative error.

    Args:
        got: The answer, if it is one.
        want: That in float64.

    Returns:
        In norm; None where there is nothing to compare.
    """
    if got is None or want is None:
        return None
    return float((got.double() - want).norm() / want.norm())


def line(row: dict[str, Any]) -> str:
    """A variant's row of the table.

    Args:
        row: What was measured.

    Returns:
        One line.
    """
    if "missing" in row:
        return f"  {row['variant']:24} {row['missing'][:90]}"
    error = "" if row["error"] is None else f"{row['error']:.1e}"
    return (
        f"  {row['variant']:24} {row['time']:6.2f} [{row['low']:.2f}, {row['high']:.2f}] "
        f"n={row['n']:<3}{row['peak_mib']:9.1f} MiB {row['memory']:6.2f}   {error}"
    )


def main() -> None:
    """Measure the cases asked for; what is found is printed and written after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=FIRST)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    device, results = torch.device(asked.device), []
    for name in asked.cases:
        # the collection before every measurement need not go through what was there before
        gc.collect()
        gc.freeze()
        try:
            rows = measured(CASES[name], asked.rounds, device)
        except Exception as error:  # noqa: BLE001 - the other cases go on
            rows = [{"variant": "all", "missing": f"{type(error).__name__}: {error}"[:200]}]
        print(name, *map(line, rows), sep="\n", flush=True)
        results += ({"case": name} | row for row in rows)
        if asked.out is not None:
            head = {"hardware": hardware(device.type), "environment": environment()}
            write_json(asked.out, head | {"results": results})


if __name__ == "__main__":
    main()

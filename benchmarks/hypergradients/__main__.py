"""What hypergradients cost, ours and those of other libraries, on the same tasks.

    python -m benchmarks.hypergradients [--cases NAME ...] [--repeats 5] [--out FILE]

Time is CPU time of one torch thread: every round runs all variants of a case in alternating
order, and what is printed is the median of the rounds' ratios to plain training, with quartiles
and the number of rounds. Memory is the peak of a fresh process above what it holds once models
and data are built. The error is relative, in norm, to the same hypergradient in float64.

Peers that are not installed are named as such; `make benchmarks` installs them first.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import torch

from benchmarks.hypergradients.implicit import implicit_case
from benchmarks.hypergradients.look_ahead import ONE_STEP
from benchmarks.hypergradients.measure import Case, measured, own_peak
from benchmarks.hypergradients.whole_run import adam_case, momentum_case
from tutelage.storage.json_files import environment, write_json

CASES: dict[str, Case] = {
    "adam, 25 steps": adam_case(25, 15),
    "adam, 100 steps": adam_case(100, 9),
    "adam, 400 steps": adam_case(400, 3),
    "adam, 1000 steps": adam_case(1000, 2),
    "momentum, 100 steps": momentum_case(100, 9),
    "momentum, 400 steps": momentum_case(400, 5),
    "implicit, 0 terms": implicit_case(0),
    "implicit, 1 term": implicit_case(1),
    **ONE_STEP,
}


def line(row: dict[str, Any]) -> str:
    """A variant's row of the table.

    Args:
        row: What was measured.

    Returns:
        One line.
    """
    if "missing" in row:
        return f"  {row['variant']:22} {row['missing']}"
    low, high = row["quartiles"]
    error = "" if row["error"] is None else f"{row['error']:.1e}"
    return (
        f"  {row['variant']:22} {row['time']:6.2f} [{low:.2f}, {high:.2f}] n={row['n']:<3}"
        f"{row['peak_mib']:8.0f} MiB {row['memory']:6.2f}   {error}"
    )


def main() -> None:
    """Measure the cases asked for, print a table and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if asked.peak is not None:
        case, variant = asked.peak
        print(own_peak(CASES[case].variants[variant]))
        return
    results = []
    print("  variant                time x plain [quartiles]   peak memory, x plain   error")
    for name in asked.cases:
        print(name)
        for row in measured(name, CASES[name], asked.repeats):
            print(line(row), flush=True)
            results.append(row)
        if asked.out is not None:
            write_json(asked.out, {"environment": environment(), "results": results})


if __name__ == "__main__":
    main()

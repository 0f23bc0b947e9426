"""What hypergradients cost, ours and those of other libraries, on the same tasks.

    python -m benchmarks.hypergradients [--cases NAME ...] [--rounds 5] [--out FILE]

Time is CPU time of one torch thread: every round runs all variants of a case in alternating
order, and what is printed is the median of the rounds' ratios to plain training, with quartiles
and the number of rounds. Memory is the peak of a fresh process above what it holds once models
and data are built. The error is relative, in norm, to the same hypergradient in float64.

Peers that are not installed are named as such; `make benchmarks` installs them first.
"""

from benchmarks.command import Benchmark, Row, main, size
from benchmarks.hypergradients.implicit import implicit_case
from benchmarks.hypergradients.look_ahead import ONE_STEP
from benchmarks.hypergradients.measure import Case, measured, own_peak
from benchmarks.hypergradients.whole_run import adam_case, momentum_case

ADAM, MOMENTUM = {25: 15, 100: 9, 400: 3, 1000: 2}, {100: 9, 400: 5}
"""rounds by steps; at small sizes all are one case"""
CASES: dict[str, Case] = {
    **{f"adam, {size(k, 3)} steps": adam_case(size(k, 3), n) for k, n in ADAM.items()},
    **{
        f"momentum, {size(k, 3)} steps": momentum_case(size(k, 3), n)
        for k, n in MOMENTUM.items()
    },
    "implicit, 0 terms": implicit_case(0),
    "implicit, 1 term": implicit_case(1),
    **ONE_STEP,
}


def line(row: Row) -> str:
    """A variant with its time in plain runs, its peak memory, and its error."""
    if "missing" in row:
        return f"{row['variant']:22} {row['missing']}"
    low, high = row["quartiles"]
    error = "" if row["error"] is None else f"{row['error']:.1e}"
    return (
        f"{row['variant']:22} {row['time']:6.2f} [{low:.2f}, {high:.2f}] n={row['n']:<3}"
        f"{row['peak_mib']:8.0f} MiB {row['memory']:6.2f}   {error}"
    )


BENCHMARK = Benchmark(
    cases=tuple(CASES),
    measure=lambda case, rounds: measured(case, CASES[case], rounds),
    line=line,
    rounds=5,
    peak=lambda case, variant: own_peak(CASES[case].variants[variant]),
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

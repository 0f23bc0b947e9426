"""The command line that all benchmarks share, and the sizes that they run at."""

import argparse
import gc
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tutelage.storage.json_files import environment, write_json

Row = dict[str, Any]
SIZE = "BENCHMARK_SIZE"
"""environment variable; ``small`` shrinks every case to a fraction of a second, for tests"""


def size(full: int, small: int) -> int:
    """A number of rows, steps or pixels: as measured, or as small as code can be run with."""
    return small if os.environ.get(SIZE) == "small" else full


@dataclass(frozen=True)
class Benchmark:
    """What is measured, case by case."""

    cases: Sequence[str]
    measure: Callable[[str, int], list[Row]]
    """from a case and a number of rounds to its rows"""
    line: Callable[[Row], str]
    """a row as it is printed"""
    rounds: int
    names: tuple[str, ...] = ("case", "variant")
    """columns that tell one row from another"""
    ratio: Callable[[Row], float | None] = lambda row: row.get("time")
    """time relative to plain training, or to this library's own way"""
    peak: Callable[[str, str], float] | None = None
    """peak memory of a variant of a case in this process, in MiB"""


def rows_of(benchmark: Benchmark, cases: Sequence[str], rounds: int) -> Iterator[list[Row]]:
    """Measure cases one after the other, and print each as it ends."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            # the collection before every measurement need not go through what was there before
            gc.collect()
            gc.freeze()
            rows = benchmark.measure(case, rounds)
            print(case, *map(benchmark.line, rows), sep="\n  ", flush=True)
            yield rows


def main(benchmark: Benchmark, description: str | None) -> None:
    """Measure the cases that are named, print them and write them as JSON if told where."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="*", choices=benchmark.cases, default=benchmark.cases)
    parser.add_argument("--rounds", type=int, default=benchmark.rounds)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak is not None and benchmark.peak is not None:
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        print(benchmark.peak(*args.peak))
        return
    results: list[Row] = []
    for rows in rows_of(benchmark, args.cases, args.rounds):
        results += rows
        if args.out is not None:
            write_json(args.out, {"environment": environment(), "results": results})

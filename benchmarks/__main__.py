"""All benchmarks, as one table beside the stored figures.

    python -m benchmarks [NAME ...] [--rounds N] [--out FOLDER] [--store]

Each benchmark writes ``FOLDER/NAME-cpu.json`` (``runs/benchmarks``, or with ``--store`` the
stored figures in ``results/performance``), and ``FOLDER/table.md`` says for every way how its
time relates to plain training and to the stored time. What got slower by more than 15% is
named at the end. With ``BENCHMARK_SIZE=small`` every case is as small as its code can be run
with, which says nothing about time.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib import import_module
from pathlib import Path

from benchmarks.command import Benchmark, Row, rows_of
from tutelage.storage.atomic_files import write_atomically
from tutelage.storage.json_files import environment, write_json

MODULES = {
    "hypergradients": "benchmarks.hypergradients.__main__",
    "alignment": "benchmarks.alignment.__main__",
    "layers": "benchmarks.alignment.layers",
    "mmel": "benchmarks.mmel",
    "augment": "benchmarks.augment",
    "step_cost": "benchmarks.step_cost",
    "growth": "benchmarks.growth",
    "left_out_paths": "benchmarks.left_out_paths",
    "teaching_cost": "benchmarks.teaching_cost",
    "students": "benchmarks.students",
}
NEED_DATA = ("students",)
STORED = Path("results/performance")
SLOWER = 1.15


def named(benchmark: Benchmark, row: Row) -> str:
    """What a row is called."""
    return ", ".join(str(row[name]) for name in benchmark.names)


def stored_times(benchmark: Benchmark, file: Path) -> Mapping[str, float]:
    """Relative times of earlier figures, by name."""
    if not file.exists():
        return {}
    found = {}
    for row in json.loads(file.read_text("utf-8"))["results"]:
        if all(name in row for name in benchmark.names):
            time = benchmark.ratio(row)
            if time is not None:
                found[named(benchmark, row)] = time
    return found


def table(
    name: str, benchmark: Benchmark, rows: Sequence[Row], before: Mapping[str, float]
) -> Iterator[tuple[str, float | None]]:
    """Lines of the table, and for each how much slower it got."""
    for row in rows:
        time, way = benchmark.ratio(row), named(benchmark, row)
        if time is not None:
            change = time / before[way] if before.get(way) else None
            shown = "" if change is None else f"{change:.2f}"
            yield f"| {name} | {way} | {time:.2f} | {shown} |", change


def main() -> None:
    """Run benchmarks and compare them with what is stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODULES))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    unknown = set(args.names) - set(MODULES)
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; known are {', '.join(MODULES)}")
    out = STORED if args.store else args.out
    out.mkdir(parents=True, exist_ok=True)
    lines, slower = [], []
    for name in args.names or MODULES:
        if name in NEED_DATA and not os.environ.get("TUTELAGE_DATA"):
            print(f"{name}: left out, TUTELAGE_DATA names no folder of data sets")
            continue
        benchmark: Benchmark = import_module(MODULES[name]).BENCHMARK
        before = stored_times(benchmark, STORED / f"{name}-cpu.json")
        measured = rows_of(benchmark, benchmark.cases, args.rounds or benchmark.rounds)
        rows = [row for found in measured for row in found]
        write_json(out / f"{name}-cpu.json", {"environment": environment(), "results": rows})
        for line, change in table(name, benchmark, rows, before):
            lines.append(line)
            slower += [line] if change is not None and change > SLOWER else []
    head = (
        f"Measured on {date.today()}: time relative to plain training, and its change from the "
        "stored figure.\n\n"
        "| benchmark | way | time | change |\n|---|---|---|---|\n"
    )
    text = head + "\n".join(lines) + "\n"
    text += f"\nSlower by more than {SLOWER - 1:.0%}: {len(slower)}\n\n" + "\n".join(slower)
    write_atomically(out / "table.md", f"{text.rstrip()}\n".encode())
    print(f"\n{text.rstrip()}")


if __name__ == "__main__":
    main()

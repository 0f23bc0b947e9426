"""Time, peak memory and error of several ways to do the same, measured side by side."""

import gc
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.command import size

Once = Callable[[], Tensor | None]
"""does the work once; returns the hypergradient, flat, where there is one"""
Build = Callable[[torch.dtype], Once]
"""makes models and data of a type, and what works on them"""

PAGE = 4
"""KiB, the least that memory can grow by"""
TIGHT = {
    # freed memory goes back to the system, so that the resident set shows what is alive
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_TOP_PAD_": "0",
}


@dataclass(frozen=True)
class Case:
    """Variants that answer the same question."""

    unit: str
    """the variant that time and memory are given in"""
    reference: Build
    """taken in float64; errors are relative to it, in norm"""
    variants: Mapping[str, Build]
    rounds: int = 100
    """at most so many, where one takes long"""


def measured(name: str, case: Case, rounds: int) -> list[dict[str, Any]]:
    """Measure all variants of a case.

    Args:
        name: The case's name, by which fresh processes find it.
        case: The case.
        rounds: How often every variant is timed, after a first go that gives its error.

    Returns:
        One row per variant; a variant that cannot run says why under ``missing``.
    """
    ready, rows = {}, {}
    for variant, build in case.variants.items():
        try:
            ready[variant] = build(torch.float32)
        except ImportError as error:
            rows[variant] = {"missing": f"not installed ({error.name})"}
    reference = case.reference(torch.float64)()
    errors = {k: _error(case.variants[k](torch.float32)(), reference) for k in ready}
    peaks = {k: peak("benchmarks.hypergradients", name, k, case.variants[k]) for k in ready}
    times = timed(ready, min(rounds, case.rounds))
    for variant in ready:
        spent = [a / b for a, b in zip(times[variant], times[case.unit], strict=True)]
        low, middle, high = statistics.quantiles(spent, n=4, method="inclusive")
        rows[variant] = {
            "time": middle,
            "quartiles": [low, high],
            "n": len(spent),
            "seconds": statistics.median(times[variant]),
            "peak_mib": peaks[variant],
            "memory": peaks[variant] / peaks[case.unit],
            "error": errors[variant],
        }
    return [{"case": name, "variant": k} | rows[k] for k in case.variants]


def timed(ready: Mapping[str, Once], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of every variant, round by round, in alternating order.

    Args:
        ready: The variants.
        rounds: How many.

    Returns:
        One number per round for each variant.
    """
    times: dict[str, list[float]] = {variant: [] for variant in ready}
    for number in range(rounds):
        for variant in list(ready)[:: 1 if number % 2 else -1]:
            gc.collect()
            started = time.process_time()
            ready[variant]()
            times[variant].append(time.process_time() - started)
    return times


def peak(benchmark: str, case: str, variant: str, build: Build) -> float:
    """Peak memory of a variant above that of its models and data, in a fresh process.

    Args:
        benchmark: The benchmark's module, which takes ``--peak``.
        case: The case's name there.
        variant: The variant's name.
        build: The variant; at small sizes it runs in this process, to save its start.

    Returns:
        MiB.
    """
    if size(0, 1):
        return own_peak(build)
    command = [sys.executable, "-W", "ignore", "-m", benchmark]
    done = subprocess.run(
        [*command, "--peak", case, variant],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | TIGHT,
    )
    return float(done.stdout.split()[-1])


def own_peak(build: Build) -> float:
    """Peak memory of one go in this process, above what it holds before.

    Args:
        build: The variant.

    Returns:
        MiB.
    """
    # the first optimiser imports much, which is nobody's fault
    parameter = nn.Parameter(torch.zeros(1))
    parameter.grad = torch.zeros(1)
    for optimizer in (
        torch.optim.Adam([parameter]),
        torch.optim.SGD([parameter], 0.1, momentum=0.9),
    ):
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    once = build(torch.float32)
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    once()
    high = _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(high - before, PAGE) / 1024


def _status(key: str) -> int:
    # KiB
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def _error(got: Tensor | None, want: Tensor | None) -> float | None:
    if got is None or want is None:
        return None
    return float((got.double() - want).norm() / want.norm())

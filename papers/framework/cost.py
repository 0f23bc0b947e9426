"""Time and peak memory of training steps, on the CPU or on a GPU."""

import gc
import os
import time
from collections.abc import Callable, Mapping
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

Once = Callable[[], object]  # runs what is measured, once


def seconds(once: Once, device: torch.device) -> float:
    """Seconds of one run: CPU time, or on a GPU the time between two events."""
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        once()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000
    before = time.process_time()
    once()
    return time.process_time() - before


def interleaved(
    ready: Mapping[str, Once], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds of several callables in every round; every other round in reverse order."""
    times: dict[str, list[float]] = {name: [] for name in ready}
    for number in range(rounds):
        for name in list(ready)[:: 1 if number % 2 else -1]:
            gc.collect()
            times[name].append(seconds(ready[name], device))
    return times


def peak_bytes(build: Callable[[], Once], device: torch.device) -> int:
    """The largest sum of torch's allocations while a callable is built and run twice."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        _twice(build)
        return torch.cuda.max_memory_allocated(device) - before
    # otherwise the profiler logs to stderr every time
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        _twice(build)
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    # torch's type stubs do not declare nbytes
    changes = (e.nbytes() for e in events)  # pyright: ignore[reportAttributeAccessIssue]
    return max(accumulate(changes))


def _twice(build: Callable[[], Once]) -> None:
    once = build()
    once()
    once()

"""Time and peak memory of training steps, on the CPU or on a card."""

import gc
import os
import time
from collections.abc import Callable, Mapping
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

Once = Callable[[], object]  # does the work once


def seconds(once: Once, device: torch.device) -> float:
    """How long something takes."""
    if device.type == "cuda":
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        began.record()
        once()
        ended.record()
        ended.synchronize()
        return began.elapsed_time(ended) / 1000
    started = time.process_time()
    once()
    return time.process_time() - started


def interleaved(
    ready: Mapping[str, Once], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds of each of several things, round by round, in alternating order."""
    times: dict[str, list[float]] = {name: [] for name in ready}
    for number in range(rounds):
        for name in list(ready)[:: 1 if number % 2 else -1]:
            gc.collect()
            times[name].append(seconds(ready[name], device))
    return times


def peak_bytes(build: Callable[[], Once], device: torch.device) -> int:
    """The most that torch holds at once while something is built and done twice."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        _twice(build)
        return torch.cuda.max_memory_allocated(device) - before
    # or else the profiler writes of itself to stderr, each time
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        _twice(build)
    assert seen.profiler is not None
    assert seen.profiler.kineto_results is not None
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    # torch's stub of the event leaves the method out
    changes = (e.nbytes() for e in events)  # pyright: ignore[reportAttributeAccessIssue]
    return max(accumulate(changes))


def _twice(build: Callable[[], Once]) -> None:
    once = build()
    once()
    once()

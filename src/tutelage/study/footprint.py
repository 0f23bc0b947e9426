"""How much memory the training of one student takes, as far as the machine tells."""

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
"""Linux: what this process holds, and where the most of it so far is forgotten"""
FORGET_PEAK = "5"

Footprint = Callable[[], int | None]
"""bytes at the peak so far, above what was held before; None where the machine does not say"""


def footprint(device: torch.device) -> Footprint:
    """Begin to watch what training takes, from before the student is made.

    On a card it is what torch allocates there. On the CPU it is the memory of the process that
    lies in RAM: student, optimiser, steps and teacher, and what libraries keep for themselves.
    What an earlier student left is given back to the system first, where it can be.

    Args:
        device: Where the student is trained.

    Returns:
        Tells the peak.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        return lambda: torch.cuda.max_memory_allocated(device) - held
    if not STATUS.exists():
        return lambda: None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
    try:
        RESET.write_text(FORGET_PEAK)
    except OSError:  # some containers forbid it
        return lambda: None
    before = _held("VmRSS")
    return lambda: max(0, _held("VmHWM") - before)


def _held(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])  # stands there in KiB
    return 0

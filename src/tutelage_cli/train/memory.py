"""How much memory the training of one student takes, as far as the machine tells."""

import ctypes
from gc import collect
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
"""Linux: what this process holds, and where the most of it so far is forgotten"""
FORGET_PEAK = "5"


class Footprint:
    """The most that training holds at once, above what was held before the student was made.

    On a card it is what torch allocates there. On the CPU it is the memory of the process that
    lies in RAM: student, optimiser, steps and teacher, and what libraries keep for themselves.
    What earlier work left is given back to the system first, where it can be.

    Args:
        device: Where the student is trained.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        collect()
        self.held: int | None = 0
        self.forget()
        self.held = None if self.held is None else self._now()

    def forget(self) -> None:
        """Forget the peak so far: what comes until now does not count."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # starts CUDA, where nothing has yet
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)
        try:
            RESET.write_text(FORGET_PEAK, encoding="ascii")
        except OSError:  # as in some containers: peaks of earlier work cannot be told apart
            self.held = None

    def peak(self) -> int | None:
        """The peak since it was last forgotten."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) - (self.held or 0)
        peak = _of_process("VmHWM")
        return None if peak is None or self.held is None else max(0, peak - self.held)

    def _now(self) -> int | None:
        if self.device.type == "cuda":
            return torch.cuda.memory_allocated(self.device)
        return _of_process("VmRSS")


def _of_process(name: str) -> int | None:
    if not STATUS.exists():
        return None
    for line in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])  # stands there in KiB
    return None

"""Peak memory of a student's training, where the machine reports it."""

import ctypes
from gc import collect
from pathlib import Path

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
"""Linux: the memory of this process, and the file that resets its peak"""
FORGET_PEAK = "5"


class PeakMemory:
    """Peak memory of training, above that in use before the student was built.

    On a GPU it is the memory that torch allocates. On the CPU it is the resident memory of the
    process: student, optimiser, steps and teacher, and buffers of libraries. Free memory of
    earlier work is returned to the system first, where possible.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        collect()
        self.held: int | None = 0
        self.forget()
        self.held = None if self.held is None else self._now()

    def forget(self) -> None:
        """Reset the peak."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # starts CUDA, where nothing has yet
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)
        try:
            RESET.write_text(FORGET_PEAK, encoding="ascii")
        except OSError:  # as in some containers: peaks of earlier work cannot be separated
            self.held = None

    def peak(self) -> int | None:
        """The peak since the last reset; None where the machine does not report it."""
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
            return 1024 * int(line.split()[1])  # in KiB
    return None

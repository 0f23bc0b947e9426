"""Log targets: TensorBoard, Weights & Biases, ``logging``, or any function."""

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tutelage.errors import require_module

Log = Callable[[int, Mapping[str, float]], None]
"""a function of the student steps taken so far and of numbers by name"""


FLUSHED_EVERY = 10
"""seconds until what was told can be seen"""


class TensorBoard:
    """Writes event files that ``tensorboard --logdir FOLDER`` shows.

    Args:
        folder: Where to; made where it is missing. Each student should have its own.
        from_step: The first step to come where training goes on after a stop: what was written
            for it and later ones before is not shown.

    Raises:
        MissingExtraError: If tensorboard is not installed.
    """

    def __init__(self, folder: Path | str, *, from_step: int | None = None) -> None:
        require_module("tensorboard", "train")
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(
            str(folder), purge_step=from_step, flush_secs=FLUSHED_EVERY
        )

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write scalars."""
        for name, number in numbers.items():
            self.writer.add_scalar(name, number, step)

    def close(self) -> None:
        """Flush and close the files."""
        self.writer.close()


def to_wandb(run: Any) -> Log:
    """Log to a run of Weights & Biases.

    Args:
        run: What ``wandb.init`` gives, or anything with ``log(numbers, step=...)``.

    Returns:
        Hands numbers on to it.
    """

    def log(step: int, numbers: Mapping[str, float]) -> None:
        run.log(dict(numbers), step=step)

    return log


def to_logger(logger: logging.Logger, level: int = logging.INFO) -> Log:
    """Log to a logger of the standard library.

    Args:
        logger: Which.
        level: Of the records.

    Returns:
        Writes a line for each step; records have the attributes ``step`` and ``numbers``.
    """

    def log(step: int, numbers: Mapping[str, float]) -> None:
        if not logger.isEnabledFor(level):
            return
        line = ", ".join(f"{name} {_short(number)}" for name, number in numbers.items())
        extra = {"step": step, "numbers": dict(numbers)}
        logger.log(level, "step %d: %s", step, line, extra=extra)

    return log


def _short(number: float) -> str:
    whole = math.isfinite(number) and number == int(number)
    return str(int(number)) if whole else f"{number:.4g}"

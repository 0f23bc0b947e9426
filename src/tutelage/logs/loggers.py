"""Log targets: TensorBoard, MLflow, Weights & Biases, ``logging``, or any function."""

import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tutelage.errors import require_module

Log = Callable[[int, Mapping[str, float]], None]
"""a function of the student steps taken so far and of numbers by name"""


FLUSHED_EVERY = 10
"""seconds until what was logged is in the file"""


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


class MLflow:
    """Logs metrics to a run of MLflow; uses no active run and sets no global address.

    Args:
        store: Where to: a folder, which is made where it is missing, or an address, such as
            ``http://localhost:5000`` or ``sqlite:///mlflow.db``. MLflow takes a folder only
            with ``MLFLOW_ALLOW_FILE_STORE=true``, which is set for this process if it is not.
        name: Of the run; MLflow chooses one where it is not given.
        experiment: The experiment's name; made where it is missing.
        run_id: A run to add to, such as this one's ``run_id`` before a stop.

    Raises:
        MissingExtraError: If mlflow is not installed.
    """

    def __init__(
        self,
        store: Path | str,
        *,
        name: str | None = None,
        experiment: str = "tutelage",
        run_id: str | None = None,
    ) -> None:
        require_module("mlflow", "mlflow")
        address = str(store)
        if isinstance(store, Path) or "://" not in address:
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            address = Path(store).absolute().as_uri()
        self.client: Any = import_module("mlflow").MlflowClient(tracking_uri=address)
        self._metric: Any = import_module("mlflow.entities").Metric
        known = self.client.get_experiment_by_name(experiment)
        self._experiment: str = (
            known.experiment_id if known else self.client.create_experiment(experiment)
        )
        self._name, self._run_id = name, run_id
        if run_id is not None:
            self.client.update_run(run_id, "RUNNING")

    @property
    def run_id(self) -> str:
        """The id of the run, which is made when it is first needed."""
        if self._run_id is None:
            made = self.client.create_run(self._experiment, run_name=self._name)
            self._run_id = str(made.info.run_id)
        return self._run_id

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        """Log metrics of a step."""
        now = int(1000 * time.time())
        metrics = [self._metric(name, number, now, step) for name, number in numbers.items()]
        self.client.log_batch(self.run_id, metrics=metrics)

    def close(self) -> None:
        """Mark the run as finished, if there is one."""
        if self._run_id is not None:
            self.client.set_terminated(self._run_id)


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

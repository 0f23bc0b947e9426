"""Logs of a student's training by their names on the command line."""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tutelage.errors import UsageError
from tutelage.logs import MLflow, TensorBoard, to_wandb
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.runner.log_names import LogName

STORE = "MLFLOW_TRACKING_URI"
"""environment variable: MLflow's own, where to log in place of the run's folder"""


@runtime_checkable
class ClosableLog(Protocol):
    """A log that is closed at its end."""

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        """Log numbers of a step."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


def prepare_log(name: LogName, group: Path) -> None:
    """Make what the students of a run share, before several processes look for it."""
    if name == "mlflow":
        MLflow(_store(group), experiment=group.name)


def _store(group: Path) -> Path | str:
    return os.environ.get(STORE) or group / "mlflow"


def open_log(
    name: LogName, folder: Path, *, group: Path, title: str, step: int | None
) -> ClosableLog:
    """Open the log of one student, or continue with it.

    ``step`` is the first to come, where later ones were logged before a stop.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if name == "tensorboard":
        return TensorBoard(folder / "tensorboard", from_step=step)
    file = folder / f"{name}-run"
    known = file.read_text(encoding="utf-8") if file.is_file() else None
    if name == "mlflow":
        log = MLflow(_store(group), name=title, experiment=group.name, run_id=known)
        write_atomically(file, log.run_id.encode())
        return log
    run = _wandb_run(folder, group.name, title, known)
    write_atomically(file, run.id.encode())
    return _WandB(run)


class _WandB:
    def __init__(self, run: Any) -> None:
        self._run, self._log = run, to_wandb(run)

    def __call__(self, step: int, numbers: Mapping[str, float]) -> None:
        self._log(step, numbers)

    def close(self) -> None:
        self._run.finish()


def _wandb_run(folder: Path, group: str, title: str, known: str | None) -> Any:
    wandb: Any = import_module("wandb")
    try:
        return wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tutelage"),
            name=title,
            group=group,
            dir=str(folder),
            id=known,
            resume="allow",
            reinit="create_new",
            settings={"silent": True, "console": "off"},
        )
    except wandb.Error as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"--log wandb: {reason} Or log to files: WANDB_MODE=offline in the environment."
        ) from error

"""Arguments of ``tutelage train``; imports nothing heavy, so that ``--help`` is fast."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tutelage.errors import UsageError, require_module
from tutelage.validation.ranges import at_least_one
from tutelage_cli.config.flags import ByFlag
from tutelage_cli.config.settings_files import load_settings
from tutelage_cli.runner.log_names import LogName
from tutelage_cli.terminal import Output
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.stored import stored_settings

LOGGED_EVERY = 50
LOG_EXTRAS = {"tensorboard": "train", "mlflow": "mlflow", "wandb": "wandb"}
"""packages that log, and the extras that bring them"""
TRAIN_HELP = """Train a taught student, an untaught one and controls, which use the same
held-out labels without a teacher. Report which to take.

Without arguments: 5,000 real digits of which 40% carry a wrong label.

Examples:
  tutelage train
  tutelage train my-images/ --student resnet20 --epochs 60 --seeds 3
  tutelage train my-images/ --noise flip2:0.4 --held-out 1000 --out runs/x
  tutelage train my-images/ --commentary commentaries/my-images-curriculum
  tutelage train --log tensorboard --out runs/x
  tutelage train --resume runs/x"""


@dataclass(frozen=True)
class Train:
    """Arguments of ``tutelage train``."""

    settings: Annotated[TrainSettings, tyro.conf.arg(name="")]

    config: Path | None = None
    """YAML file of settings, by the names of these flags; flags given here override it."""

    out: Path | None = None
    """Folder of the run. If not given: runs/NAME-OF-THE-DATA, numbered if that exists."""

    resume: Path | None = None
    """Resume the run in this folder with its own settings."""

    log: LogName | None = None
    """Write curves of student and teacher during training. tensorboard: view them with
    tensorboard --logdir RUN; mlflow: in RUN/mlflow, or where MLFLOW_TRACKING_URI says; wandb:
    Weights & Biases. docs/logging.md describes each."""

    log_every: int | None = None
    """Student steps between two points of a curve; 50 if not given."""

    backend: Literal["processes", "ray"] = "processes"
    """Where students are trained: processes of this machine; or ray, a Ray cluster, local where
    RAY_ADDRESS names none. docs/cluster.md describes it."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)

    @property
    def logged_every(self) -> int:
        """Student steps between two logged ones; 0 without a log."""
        return 0 if self.log is None else self.log_every or LOGGED_EVERY

    @property
    def flags_to_resume(self) -> list[str]:
        """The flags that log the same curves, in the same place, when the run is resumed."""
        every = [] if self.log_every is None else ["--log-every", str(self.log_every)]
        log = [] if self.log is None else ["--log", self.log, *every]
        return log if self.backend == "processes" else [*log, "--backend", self.backend]


def check_packages(args: Train) -> None:
    """Check the flags of the log and of the backend.

    Note: raises ``MissingExtraError`` where the package of one is not installed.
    """
    at_least_one(ByFlag(args), "--log-every")
    if args.log_every is not None and args.log is None:
        raise UsageError("--log-every does nothing by itself: give --log tensorboard, too.")
    if args.log is not None:
        require_module(args.log, LOG_EXTRAS[args.log])
    if args.backend == "ray":
        require_module("ray", "cluster")


def resume_error(run: Path) -> str:
    """The message for settings given together with ``--resume``."""
    return (
        f"--resume {run} continues that run with its own settings; leave the other flags away, "
        "or start a new run with --out."
    )


def base_settings(argv: Sequence[str]) -> TrainSettings:
    """Settings before flags: those of the resumed run, of the config file, or the defaults."""
    file, run = _value_after(argv, "--config"), _value_after(argv, "--resume")
    if run is not None:
        if file is not None:
            raise UsageError(resume_error(Path(run)))
        return stored_settings(Path(run))
    return TrainSettings() if file is None else load_settings(TrainSettings, Path(file))


def _value_after(argv: Sequence[str], flag: str) -> str | None:
    for word, following in zip(argv, [*argv, None][1:], strict=True):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None

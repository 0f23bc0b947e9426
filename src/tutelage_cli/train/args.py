"""What ``tutelage train`` can be asked; light, so that ``--help`` need not wait."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tutelage.errors import UsageError, require_module
from tutelage.validation.ranges import at_least_one
from tutelage_cli.config.settings_files import load_settings
from tutelage_cli.terminal import Output
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.stored import stored_settings

LOGGED_EVERY = 50
TRAIN_HELP = """Train a taught student beside an untaught one and beside controls: what the same
held-out labels do without a teacher. Report which to take.

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
    """What ``tutelage train`` was asked."""

    settings: Annotated[TrainSettings, tyro.conf.arg(name="")]

    config: Path | None = None
    """YAML file of settings, by the names of these flags; flags given here override it."""

    out: Path | None = None
    """Folder of the run. If not given: runs/NAME-OF-THE-DATA, numbered if that exists."""

    resume: Path | None = None
    """Continue the run in this folder where it was stopped, with its own settings."""

    log: Literal["tensorboard"] | None = None
    """Write curves of student and teacher while they train; show them with tensorboard
    --logdir RUN. What each is: docs/logging.md."""

    log_every: int | None = None
    """Student steps between two points of these curves; 50 if not given."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)

    @property
    def logged_every(self) -> int:
        """Student steps between two that are logged; 0 where none is."""
        return 0 if self.log is None else self.log_every or LOGGED_EVERY

    @property
    def log_flags(self) -> list[str]:
        """The flags that ask for the same curves when the run is continued."""
        every = [] if self.log_every is None else ["--log-every", str(self.log_every)]
        return [] if self.log is None else ["--log", self.log, *every]


def check_log(asked: Train) -> None:
    """Refuse curves that cannot be written.

    Note: raises ``MissingExtraError`` where what shows them is not installed.
    """
    at_least_one(asked, "log_every")
    if asked.log_every is not None and asked.log is None:
        raise UsageError("log_every does nothing by itself: give --log tensorboard, too.")
    if asked.log is not None:
        require_module(asked.log, "train")


def keeps_settings(run: Path) -> str:
    """What to say where a run that is continued is given settings."""
    return (
        f"--resume {run} continues that run with its own settings; leave the other flags away, "
        "or start a new run with --out."
    )


def base(words: Sequence[str]) -> TrainSettings:
    """The settings that flags override: those of the run, of the file, or the defaults."""
    file, run = _value_after(words, "--config"), _value_after(words, "--resume")
    if run is not None:
        if file is not None:
            raise UsageError(keeps_settings(Path(run)))
        return stored_settings(Path(run))
    return TrainSettings() if file is None else load_settings(TrainSettings, Path(file))


def _value_after(words: Sequence[str], flag: str) -> str | None:
    for word, following in zip(words, [*words, None][1:], strict=True):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None

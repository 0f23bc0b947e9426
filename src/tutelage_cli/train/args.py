"""Arguments of ``tutelage train`` and their groups in its help; imports nothing heavy."""

import ast
import dataclasses
import functools
import inspect
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from tutelage.errors import UsageError, require_module
from tutelage.validation.ranges import at_least_one
from tutelage_cli.config.flags import ByFlag
from tutelage_cli.config.settings_files import load_settings
from tutelage_cli.runner.log_names import LogName
from tutelage_cli.runner.workers import process_count
from tutelage_cli.terminal import Output
from tutelage_cli.train.names import BY_BATCH
from tutelage_cli.train.settings import TrainSettings, stored_settings

LOGGED_EVERY = 50
LAUNCHED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""environment variables that torchrun sets beside WORLD_SIZE"""
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
FIRST_FLAGS = (
    *("data", "teacher", "controls", "student", "held_out", "held_out_from", "epochs", "lr"),
    *("seeds", "out", "resume"),
)
"""the source of the data, and the ten flags that matter most"""
FLAG_GROUPS: dict[str, tuple[str, ...]] = {
    "data": (
        *("test_from", "labels_from", "label_column", "image_column", "text_column"),
        *("feature_column", "image_size", "max_length", "limit", "noise", "imbalance"),
        *("augment", "broken_images", "empty_classes", "missing_labels", "ignore_labels"),
    ),
    "student": (
        *("student_weights", "freeze", "batch_size", "choose_lr", "momentum", "weight_decay"),
        "decay_at",
    ),
    "teacher": (
        *("teacher_lr", "teacher_every", "unroll_steps", "layers", "metric", "level", "tap"),
        *("commentary", "label_embedding", "weights_from", "default_weight"),
    ),
    "control": ("folds", "rounds"),
    "run": ("config", "jobs", "backend", "device", "log", "log_every", "output"),
}
"""the other flags by the name of their group"""


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
    """Check the flags of the log and of the backend."""
    at_least_one(ByFlag(args), "--log-every")
    if args.log_every is not None and args.log is None:
        raise UsageError("--log-every does nothing by itself: give --log tensorboard, too.")
    if args.log is not None:
        require_module(args.log, LOG_EXTRAS[args.log])
    if process_count() > 1:
        _check_processes(args)
    if args.backend == "ray":
        require_module("ray", "cluster")


def _check_processes(args: Train) -> None:
    count, settings = process_count(), args.settings
    if missing := [name for name in LAUNCHED if name not in os.environ]:
        raise UsageError(
            f"WORLD_SIZE is {count}, but {missing[0]} is not set: start the command by "
            "torchrun, which sets both, or unset WORLD_SIZE."
        )
    several = args.resume is None and settings.jobs not in (None, 1)
    if args.backend == "ray" or several:
        flag = "--backend ray" if args.backend == "ray" else f"--jobs {settings.jobs}"
        raise UsageError(
            f"{flag} trains several students at a time, and torchrun one at a time on its "
            f"{count} processes: leave out one of the two."
        )
    if refused := [name for name in settings.teacher if name in BY_BATCH]:
        raise UsageError(
            f"--teacher {refused[0]} relates the rows of a batch to one another, and "
            f"torchrun divides them among {count} processes: give another teacher, or leave "
            "out torchrun (--jobs trains several students at a time)."
        )
    if ":" in settings.device:
        raise UsageError(
            f"--device {settings.device} is one GPU, but torchrun started {count} processes, "
            "each with a GPU of its own: give --device cuda."
        )


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


def train_flags(default: TrainSettings) -> type[Any]:
    """A dataclass of the fields of ``Train`` and its settings, in groups."""
    of = _flag_fields(default)
    fields: list[tuple[str, Any, Any]] = [of[name] for name in FIRST_FLAGS]
    for group, names in FLAG_GROUPS.items():
        cls = dataclasses.make_dataclass(group, [of[name] for name in names], frozen=True)
        hint = Annotated[cls, tyro.conf.arg(name=group)]
        value = dataclasses.field(default_factory=cls, metadata={"help": ""})
        fields.append((f"{group}_flags", hint, value))
    return dataclasses.make_dataclass("TrainFlags", fields, frozen=True)


def train_of(flags: Any) -> Train:
    """The arguments that an instance of ``train_flags`` holds."""
    given = {name: getattr(flags, name) for name in FIRST_FLAGS}
    for group, names in FLAG_GROUPS.items():
        given |= {name: getattr(getattr(flags, f"{group}_flags"), name) for name in names}
    names = [field.name for field in dataclasses.fields(TrainSettings)]
    settings = TrainSettings(**{name: given.pop(name) for name in names})
    return Train(settings, **given)


def _flag_fields(default: TrainSettings) -> dict[str, tuple[str, Any, Any]]:
    # name, annotation and default of every field, as make_dataclass takes them; where there is
    # no help, tyro would search the standard library's types.py for the made class
    found: dict[str, tuple[str, Any, Any]] = {}
    for cls, base in ((Train, Train(default)), (TrainSettings, default)):
        hints, texts = get_type_hints(cls, include_extras=True), _descriptions(cls)
        for one in dataclasses.fields(cls):
            described = {"help": texts.get(one.name, "")}
            value = dataclasses.field(default=getattr(base, one.name), metadata=described)
            found[one.name] = one.name, hints[one.name], value
    return found


@functools.cache
def _descriptions(cls: type[Any]) -> dict[str, str]:
    # the string below each field of a dataclass
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }

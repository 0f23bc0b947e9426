"""The command line: ``tutelage`` train, commentary, reproduce and list.

Only light packages are imported here; torch and all that needs it come in with a command.
"""

import dataclasses
import io
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Column, Table

from tutelage.config import from_plain, load_settings, to_plain
from tutelage.errors import MissingExtraError, UnsupportedStudentError, UsageError
from tutelage.learning.asked import Commentary, Learn, Show
from tutelage.recipes import RECIPES, load_recipe
from tutelage.reproduction.asked import Reproduce, check, check_word
from tutelage.runs import (
    create_run,
    exists,
    free_folder,
    refuse_taken,
    run_settings,
    stored_fact,
)
from tutelage.study.settings import EMBEDDED, TAUGHT_BY, TrainSettings

FAILED, WRONG_USE, STOPPED = 1, 2, 130
"""exit codes"""
TRAIN_HELP = """Train a taught student beside an untaught one, and report what teaching did.

Without arguments: 5,000 real digits of which 40% carry a wrong label.

Examples:
  tutelage train
  tutelage train my-images/ --student resnet20 --epochs 60 --seeds 3
  tutelage train my-images/ --noise flip2:0.4 --held-out 1000 --out runs/x
  tutelage train my-images/ --commentary runs/x/commentary
  tutelage train --resume runs/x"""
COMMENTARY_HELP = "Learn a commentary with one student, or show what one has learnt."
REPRODUCE_HELP = """Check a paper's claim: run its arms with several seeds and compare.

Prints the paper's numbers, ours, and a verdict: holds, does not hold,
undecided. A run that was stopped goes on with what is missing when the same
command is given again.

Examples:
  tutelage list
  tutelage reproduce gar-splits --scale mini --seeds 3
  tutelage reproduce gar-splits --set epochs=5 --out /tmp/shorter
  tutelage reproduce gar-splits --backend ray"""


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


@dataclass(frozen=True)
class List:
    """List the recipes, the teachers and the students there are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Words after the program's name; those of this process if None.

    Returns:
        The exit code: 0, 1 where jobs failed, 2 for wrong use, 130 when stopped by Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no box-drawing letters
    try:
        asked = parse(words)
        if isinstance(asked, List):
            return list_names()
        if isinstance(asked, Commentary):
            return commentary(asked.asked)
        return reproduce(asked) if isinstance(asked, Reproduce) else train(asked)
    except KeyboardInterrupt:
        print("tutelage: interrupted.", file=sys.stderr)
        return STOPPED
    except (UsageError, UnsupportedStudentError, MissingExtraError, OSError) as error:
        print(f"tutelage: {error}", file=sys.stderr)
        return WRONG_USE


def parse(words: Sequence[str]) -> Train | Commentary | Reproduce | List:
    """What the words ask for; prints help or a mistake and exits where they ask for that.

    Args:
        words: Words after the program's name.

    Returns:
        The command with its settings.
    """
    commands = (
        Annotated[
            Train,
            tyro.conf.subcommand("train", default=Train(_base(words)), description=TRAIN_HELP),
        ]
        | Annotated[Commentary, tyro.conf.subcommand("commentary", description=COMMENTARY_HELP)]
        | Annotated[Reproduce, tyro.conf.subcommand("reproduce", description=REPRODUCE_HELP)]
        | Annotated[List, tyro.conf.subcommand("list", description=List.__doc__)]
    )
    flat = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    return tyro.cli(commands, prog="tutelage", args=words, config=flat)


def _base(words: Sequence[str]) -> TrainSettings:
    # the settings that flags override: those of the run, of the file, or the defaults
    file, run = _value_after(words, "--config"), _value_after(words, "--resume")
    if run is not None:
        if file is not None:
            raise UsageError(_keeps_settings(Path(run)))
        return from_plain(TrainSettings, run_settings(Path(run)), run)
    return TrainSettings() if file is None else load_settings(TrainSettings, Path(file))


def _value_after(words: Sequence[str], flag: str) -> str | None:
    for word, following in zip(words, [*words, None][1:], strict=True):
        if word == flag:
            return following
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


def train(asked: Train) -> int:
    """Run or continue a study and print what came of it.

    Args:
        asked: What was asked.

    Returns:
        The exit code.

    Raises:
        UsageError: If what was asked cannot be done.
    """
    if asked.resume is None:
        settings = with_full_paths(asked.settings)
        run = asked.out or free_folder(Path("runs"), Path(settings.data).name or "run")
        refuse_taken(run)
    else:
        run, settings = asked.resume, _own_settings(asked, asked.resume)
    console = Console()
    console.print("Reading the data ...", style="dim")
    # torch comes in here, after everything that can be refused without it
    from tutelage.study.check import check as check_settings
    from tutelage.study.check import fingerprint
    from tutelage.study.display import Display
    from tutelage.study.study import run_study
    from tutelage.study.told import tell

    source = check_settings(settings)
    facts = {"data": fingerprint(source)}
    if asked.resume is None:
        create_run(run, to_plain(settings), facts)
    elif stored_fact(run, "data") != facts["data"]:
        raise UsageError(f"The data of the run {run} has changed since; start a new run.")
    try:
        summary = run_study(run, settings, source, Display(console))
    except KeyboardInterrupt:  # a second one, or one while the report is written
        summary = None
    except OSError as error:
        raise UsageError(
            f"{run} cannot be written: {error.strerror}. Mend that, then use --resume."
        ) from error
    if summary is None:
        way = shlex.join(["tutelage", "train", "--resume", str(run)])
        console.print(f"Stopped. Continue with: {way}", soft_wrap=True, markup=False)
        return STOPPED
    tell(console, run, summary)
    return 0


def with_full_paths(settings: TrainSettings) -> TrainSettings:
    """The same settings wherever they are read again.

    Args:
        settings: Settings whose paths may be relative to the current folder.

    Returns:
        Settings with absolute paths; words and Hub ids stay as they are.
    """

    def full(path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    data = settings.data
    if data != EMBEDDED and exists(Path(data).expanduser()):
        data = os.path.abspath(Path(data).expanduser())  # noqa: PTH100 - resolves "..", not links
    labels, commentary = full(settings.labels_from), full(settings.commentary)
    return dataclasses.replace(settings, data=data, labels_from=labels, commentary=commentary)


def _keeps_settings(run: Path) -> str:
    return (
        f"--resume {run} continues that run with its own settings; leave the other flags away, "
        "or start a new run with --out."
    )


def _own_settings(asked: Train, run: Path) -> TrainSettings:
    stored = from_plain(TrainSettings, run_settings(run), str(run))
    if asked.settings != stored or asked.out is not None:
        raise UsageError(_keeps_settings(run))
    return stored


def commentary(asked: Learn | Show) -> int:
    """Learn or show a commentary.

    Args:
        asked: What was asked.

    Returns:
        The exit code.
    """
    from tutelage.learning.command import commentary as run

    console = Console()
    try:
        run(asked, console)
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on after the last whole round.")
        return STOPPED
    return 0


def reproduce(asked: Reproduce) -> int:
    """Run a recipe, or what is missing of it, and print what came of it.

    Args:
        asked: What was asked.

    Returns:
        The exit code.
    """
    check_word("recipe", asked.recipe, RECIPES)
    check(asked)
    console = Console()
    # torch comes in here, after everything that can be refused without it
    from tutelage.reproduction.reproduce import reproduce as run
    from tutelage.reproduction.told import tell

    try:
        found = run(load_recipe(asked.recipe), asked, console)
    except KeyboardInterrupt:
        console.print("Stopped. The same command goes on with what is missing.")
        return STOPPED
    tell(console, found)
    return FAILED if found.failures else 0


def list_names() -> int:
    """Print the recipes, the teachers and the students there are.

    Returns:
        The exit code.
    """
    from tutelage.models.catalogue import STUDENTS

    console = Console()
    recipes = Table(Column("Recipe", no_wrap=True), "What it checks", "Minutes")
    for name in RECIPES:
        recipe = load_recipe(name)
        minutes = ", ".join(f"{scale} {time:g}" for scale, time in recipe.minutes.items())
        recipes.add_row(name, f"{recipe.title} ({recipe.where})", minutes)
    console.print(recipes)
    teachers = Table("Teacher", "What it is")
    for name, what in TAUGHT_BY.items():
        teachers.add_row(name, what)
    console.print(teachers)
    console.print(f"Students: {', '.join(STUDENTS)}, wrn-D-K, torchvision's names")
    return 0


if __name__ == "__main__":
    sys.exit(main())

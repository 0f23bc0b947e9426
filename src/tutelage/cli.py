"""The command line: ``tutelage train`` and ``tutelage list``.

Only light packages are imported here; torch and all that needs it come in with a command.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich import box
from rich.console import Console
from rich.table import Table

from tutelage.config import from_plain, load_settings, to_plain
from tutelage.errors import MissingExtraError, UnsupportedStudentError, UsageError
from tutelage.runs import create_run, free_folder, run_settings
from tutelage.study.settings import TAUGHT_BY, TrainSettings

WRONG_USE, STOPPED = 2, 130
"""exit codes"""
TRAIN_HELP = """Train a taught student beside an untaught one, and report what teaching did.

Without arguments: 5,000 real digits of which 40% carry a wrong label.

Examples:
  tutelage train
  tutelage train my-images/ --student resnet20 --epochs 60 --seeds 3
  tutelage train my-images/ --noise flip2:0.4 --held-out 1000 --out runs/x
  tutelage train my-images/ --commentary runs/x/commentary
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


@dataclass(frozen=True)
class List:
    """List the teachers and the students there are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Words after the program's name; those of this process if None.

    Returns:
        The exit code: 0, 2 for wrong use, 130 when stopped by Ctrl-C.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        asked = parse(words)
        return list_names() if isinstance(asked, List) else train(asked)
    except (UsageError, UnsupportedStudentError, MissingExtraError, OSError) as error:
        print(f"tutelage: {error}", file=sys.stderr)
        return WRONG_USE


def parse(words: Sequence[str]) -> Train | List:
    """What the words ask for; prints help or a mistake and exits where they ask for that.

    Args:
        words: Words after the program's name.

    Returns:
        The command with its settings.
    """
    file = _value_after(words, "--config")
    base = TrainSettings() if file is None else load_settings(TrainSettings, Path(file))
    commands = (
        Annotated[
            Train,
            tyro.conf.subcommand("train", default=Train(base), description=TRAIN_HELP),
        ]
        | Annotated[List, tyro.conf.subcommand("list", description=List.__doc__)]
    )
    flat = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    return tyro.cli(commands, prog="tutelage", args=words, config=flat)


def _value_after(words: Sequence[str], flag: str) -> str | None:
    for word, following in zip(words, [*words[1:], None], strict=True):
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
    """
    if asked.resume is None:
        settings = asked.settings
        run = asked.out or free_folder(Path("runs"), Path(settings.data).stem or "run")
    else:
        run, settings = asked.resume, _settings_of(asked)
    console = Console()
    console.print("Reading the data ...", style="dim")
    # torch comes in here, after everything that can be refused without it
    from tutelage.study.display import Display
    from tutelage.study.study import check, run_study

    source = check(settings)
    if asked.resume is None:
        create_run(run, to_plain(settings))
    summary = run_study(run, settings, source, Display(console))
    if summary is None:
        console.print(f"Stopped. Continue with: tutelage train --resume {run}", soft_wrap=True)
        return STOPPED
    _print_summary(console, run, summary)
    return 0


def _settings_of(asked: Train) -> TrainSettings:
    assert asked.resume is not None
    stored = from_plain(TrainSettings, run_settings(asked.resume))
    if asked.settings not in (TrainSettings(), stored) or asked.out is not None:
        raise UsageError(
            f"--resume {asked.resume} continues that run with its own settings; leave the "
            "other flags away, or start a new run with --out."
        )
    return stored


def _print_summary(console: Console, run: Path, summary: dict[str, Any]) -> None:
    from tutelage.report import HEADER, caption, rows
    from tutelage.study.summary import data_line, report_arms

    arms = report_arms(summary)
    console.print(data_line(summary["data"]), highlight=False)
    table = Table(*HEADER, title=caption(arms), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for row in rows(arms):
        table.add_row(*row)
    console.print(table)
    for sentence in summary["verdict"]:
        console.print(sentence, highlight=False)
    console.print(f"\nRun:        {run}", highlight=False, soft_wrap=True)
    console.print(f"Report:     {run / 'report.html'}", highlight=False, soft_wrap=True)
    if (run / "commentary").exists():
        console.print(f"Commentary: {run / 'commentary'}", highlight=False, soft_wrap=True)


def list_names() -> int:
    """Print the teachers and the students there are.

    Returns:
        The exit code.
    """
    from tutelage.models.catalogue import STUDENTS

    console = Console()
    teachers = Table("Teacher", "What it is")
    for name, what in TAUGHT_BY.items():
        teachers.add_row(name, what)
    console.print(teachers)
    console.print(f"Students: {', '.join(STUDENTS)}, wrn-D-K, torchvision's names")
    return 0


if __name__ == "__main__":
    sys.exit(main())

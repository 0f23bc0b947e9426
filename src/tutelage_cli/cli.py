"""The command line: ``tutelage`` train, inspect, report, commentary, reproduce and list.

Only light packages are imported here; torch and all that needs it come in with a command.
"""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.table import Column, Table

from papers.catalogue import RECIPES, load_recipe
from papers.framework.args import Reproduce, check, check_word
from tutelage.errors import (
    MissingExtraError,
    UnsupportedStudentError,
    UsageError,
    interrupted,
)
from tutelage_cli.commentary.args import Commentary, Export, Learn, Show
from tutelage_cli.inspect.args import INSPECT_HELP, REPORT_HELP, Inspect, Report
from tutelage_cli.terminal import Speech, say
from tutelage_cli.train.args import TRAIN_HELP, Train, base
from tutelage_cli.train.names import TAUGHT_BY

FAILED, WRONG_USE, STOPPED = 1, 2, 130
"""exit codes"""
COMMENTARY_HELP = "Learn a commentary with one student, show what one has learnt, or export it."
REPRODUCE_HELP = """Check a paper's claim: run its arms with several seeds and compare.

Prints the paper's numbers, ours, and a verdict: holds, does not hold,
undecided. A run that was stopped goes on with what is missing when the same
command is given again.

Examples:
  tutelage list
  tutelage reproduce gar-splits --scale mini --seeds 3
  tutelage reproduce gar-splits --set epochs=5 --out shorter
  tutelage reproduce gar-splits --backend ray"""


@dataclass(frozen=True)
class List:
    """List the recipes, the teachers and the students there are."""

    speech: Annotated[Speech, tyro.conf.arg(name="")] = field(default_factory=Speech)


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
            return list_names(asked)
        if isinstance(asked, Commentary):
            return commentary(asked.asked)
        if isinstance(asked, Inspect | Report):
            return look(asked)
        return reproduce(asked) if isinstance(asked, Reproduce) else train(asked)
    except KeyboardInterrupt:
        print("tutelage: interrupted.", file=sys.stderr)
        return STOPPED
    except (UsageError, UnsupportedStudentError, MissingExtraError, OSError) as error:
        if interrupted(error):  # which a package that was being imported took for its own fault
            print("tutelage: interrupted.", file=sys.stderr)
            return STOPPED
        print(f"tutelage: {error}", file=sys.stderr)
        return WRONG_USE


def parse(words: Sequence[str]) -> Train | Inspect | Report | Commentary | Reproduce | List:
    """What the words ask for; prints help or a mistake and exits where they ask for that.

    Args:
        words: Words after the program's name.

    Returns:
        The command with its settings.
    """
    commands = (
        Annotated[
            Train,
            tyro.conf.subcommand("train", default=Train(base(words)), description=TRAIN_HELP),
        ]
        | Annotated[Inspect, tyro.conf.subcommand("inspect", description=INSPECT_HELP)]
        | Annotated[Report, tyro.conf.subcommand("report", description=REPORT_HELP)]
        | Annotated[Commentary, tyro.conf.subcommand("commentary", description=COMMENTARY_HELP)]
        | Annotated[Reproduce, tyro.conf.subcommand("reproduce", description=REPRODUCE_HELP)]
        | Annotated[List, tyro.conf.subcommand("list", description=List.__doc__)]
    )
    flat = (
        tyro.conf.OmitArgPrefixes,
        tyro.conf.OmitSubcommandPrefixes,
        tyro.conf.FlagCreatePairsOff,
    )
    return tyro.cli(commands, prog="tutelage", args=words, config=flat)


def train(asked: Train) -> int:
    """Run or continue a study.

    Args:
        asked: What was asked.

    Returns:
        The exit code.
    """
    from tutelage_cli.train.command import train as run

    return 0 if run(asked) else STOPPED


def look(asked: Inspect | Report) -> int:
    """Say which examples a run distrusts, or compare runs.

    Args:
        asked: What was asked.

    Returns:
        The exit code.
    """
    from tutelage_cli.inspect.command import inspect, report

    if isinstance(asked, Inspect):
        inspect(asked)
    else:
        report(asked)
    return 0


def commentary(asked: Learn | Show | Export) -> int:
    """Learn, show or export a commentary.

    Args:
        asked: What was asked.

    Returns:
        The exit code.
    """
    from tutelage_cli.commentary.command import commentary as run

    try:
        run(asked)
    except KeyboardInterrupt:
        say(
            asked.speech.progress(),
            "Stopped. The same command goes on after the last whole round.",
        )
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
    progress = asked.speech.progress()
    # torch comes in here, after everything that can be refused without it
    from papers.framework.reproduce import reproduce as run
    from papers.framework.terminal import tell

    try:
        found = run(load_recipe(asked.recipe), asked, progress)
    except KeyboardInterrupt:
        say(progress, "Stopped. The same command goes on with what is missing.")
        return STOPPED
    tell(asked.speech.result(), found)
    asked.speech.document(found.plain)
    return FAILED if found.failures else 0


def list_names(asked: List) -> int:
    """Print the recipes, the teachers and the students there are.

    Args:
        asked: What was asked.

    Returns:
        The exit code.
    """
    from tutelage.models.catalogue import STUDENTS

    console, known = asked.speech.result(), [load_recipe(name) for name in RECIPES]
    recipes = Table(Column("Recipe", no_wrap=True), "What it checks", "Minutes")
    for name, recipe in zip(RECIPES, known, strict=True):
        minutes = ", ".join(f"{scale} {time:g}" for scale, time in recipe.minutes.items())
        recipes.add_row(name, f"{recipe.title} ({recipe.where})", minutes)
    console.print(recipes)
    teachers = Table("Teacher", "What it is")
    for name, what in TAUGHT_BY.items():
        teachers.add_row(name, what)
    console.print(teachers)
    console.print(f"Students: {', '.join(STUDENTS)}, wrn-D-K, torchvision's names")
    asked.speech.document({
        "recipes": {
            name: {"title": r.title, "where": r.where, "minutes": dict(r.minutes)}
            for name, r in zip(RECIPES, known, strict=True)
        },
        "teachers": dict(TAUGHT_BY),
        "students": [*STUDENTS, "wrn-D-K"],
    })
    return 0


if __name__ == "__main__":
    sys.exit(main())

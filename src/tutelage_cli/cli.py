"""The command line: ``tutelage`` train, inspect, report, commentary and list.

Only light packages are imported here; torch and all that needs it come in with a command.
"""

import io
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro
from rich.table import Table

from tutelage.errors import MissingExtraError, UnsupportedStudentError, UsageError, interrupted
from tutelage_cli.commentary.args import Card, Commentary, Export, Learn, Pull, Push, Show
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.compare.args import REPORT_HELP, Report
from tutelage_cli.config.flags import flags_of_several_values, with_repeated_joined
from tutelage_cli.inspect.args import INSPECT_HELP, Inspect
from tutelage_cli.runner.workers import handling, process_rank
from tutelage_cli.terminal import Output, say
from tutelage_cli.train.args import TRAIN_HELP, Train, base_settings, train_flags, train_of
from tutelage_cli.train.names import TAUGHT_BY
from tutelage_cli.train.settings import TrainSettings

WRONG_USE, STOPPED = 2, 130
"""exit codes"""
FLAT = (
    tyro.conf.OmitArgPrefixes,
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.FlagCreatePairsOff,
)
"""flags are named without the names of the dataclasses that hold them"""
OTHERS = (
    "wrn-D-K",
    "efficientnet-lite0",
    "torchvision:NAME",
    "timm:NAME",
    "FOLDER",
    "FILE.py:FUNCTION",
)
"""students of images besides those of the catalogue"""
COMMENTARY_HELP = "Learn a commentary with one student, show what it learned, or share it."


HELP = """Train students with and without a teacher, and say which labels are likely wrong.

tutelage --version prints the version. Exit codes: 0; 2 for wrong use, said in
one line; 130 where Ctrl-C or SIGTERM stopped a command, which then says how to
go on."""


@dataclass(frozen=True)
class List:
    """List the teachers and the students."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    helps = {"-h", "--help"} & {*words}  # after which no process waits for others
    if words[:1] == ["train"] and process_rank() > 0 and not helps:
        return exit_code_of(take_part, "tutelage")
    return exit_code_of(lambda: command(parse(words)), "tutelage")


def exit_code_of(run: Callable[[], int], program: str) -> int:
    """Run a command; an error that the user can correct becomes one line on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without box-drawing characters
    try:
        return run()
    except KeyboardInterrupt:
        print(f"{program}: interrupted.", file=sys.stderr)
        return STOPPED
    except (UsageError, UnsupportedStudentError, MissingExtraError, OSError) as error:
        if interrupted(error):  # an interrupt that a package turned into an ImportError
            print(f"{program}: interrupted.", file=sys.stderr)
            return STOPPED
        print(f"{program}: {error}", file=sys.stderr)
        return WRONG_USE


def command(args: Train | Inspect | Report | Commentary | List) -> int:
    """Run the command that was given."""
    if isinstance(args, List):
        return list_names(args)
    if isinstance(args, Commentary):
        return commentary(args.command)
    if isinstance(args, Inspect | Report):
        return inspect_or_report(args)
    return train(args)


def parse(words: Sequence[str]) -> Train | Inspect | Report | Commentary | List:
    """Parse the command line; prints help, or a mistake, and exits where needed."""
    _refuse_empty(words)
    words = with_repeated_joined(words, _flags_of_several_values(words))
    flags = train_flags(base_settings(words))
    commands = (
        Annotated[
            Train, tyro.conf.subcommand("train", constructor=flags, description=TRAIN_HELP)
        ]
        | Annotated[Inspect, tyro.conf.subcommand("inspect", description=INSPECT_HELP)]
        | Annotated[Report, tyro.conf.subcommand("report", description=REPORT_HELP)]
        | Annotated[Commentary, tyro.conf.subcommand("commentary", description=COMMENTARY_HELP)]
        | Annotated[List, tyro.conf.subcommand("list", description=List.__doc__)]
    )
    found: Any = tyro.cli(commands, prog="tutelage", description=HELP, args=words, config=FLAT)
    return train_of(found) if isinstance(found, flags) else found


def _flags_of_several_values(words: Sequence[str]) -> set[str]:
    if words[:1] == ["train"]:
        return flags_of_several_values(TrainSettings)
    if words[:2] == ["commentary", "card"]:
        return flags_of_several_values(Card)
    return flags_of_several_values(LearnSettings, Show)


def _refuse_empty(words: Sequence[str]) -> None:
    # a path that is empty would be the working folder
    last = "an argument"
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else ("", "=", word)
        last = name or last
        if equals and not value and last != "--ignore-labels":
            raise UsageError(f"{last} is empty: give a value, or leave it out.")


def take_part() -> int:
    """Take part in the training that the first of torchrun's processes runs."""
    with handling(signal.SIG_DFL):  # this process has nothing to save
        from tutelage_cli.train.data_parallel import take_part as run

        return run()


def train(args: Train) -> int:
    """Run or continue a study."""
    from tutelage_cli.train.command import train as run

    return 0 if run(args) else STOPPED


def inspect_or_report(args: Inspect | Report) -> int:
    """List the labels of a run that are likely wrong, or compare runs."""
    from tutelage_cli.compare.command import report
    from tutelage_cli.inspect.command import inspect

    if isinstance(args, Inspect):
        inspect(args)
    else:
        report(args)
    return 0


def commentary(args: Learn | Show | Export | Card | Push | Pull) -> int:
    """Learn, show, describe or share a commentary."""
    from tutelage_cli.commentary.command import commentary as run

    try:
        run(args)
    except KeyboardInterrupt:
        say(
            args.output.notice(),
            "Stopped. The same command goes on after the last whole round.",
        )
        return STOPPED
    return 0


def list_names(args: List) -> int:
    """Print the teachers and the students."""
    from tutelage.models.catalogue import STUDENTS
    from tutelage.models.heads import HEADS

    console = args.output.result()
    teachers = Table("Teacher", "What it is")
    for name, what in TAUGHT_BY.items():
        teachers.add_row(name, what)
    console.print(teachers)
    console.print(f"Students of images: {', '.join((*STUDENTS, *OTHERS))}")
    console.print("Students of texts: bag, a folder of transformers")
    console.print(f"Students of feature vectors: {', '.join(HEADS)}")
    args.output.document({
        "teachers": dict(TAUGHT_BY),
        "students": [*STUDENTS, *OTHERS],
        "students_of_texts": ["bag", "FOLDER"],
        "students_of_features": list(HEADS),
    })
    return 0

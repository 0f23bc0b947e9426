"""``tutelage train``: checks arguments, runs or resumes a study and prints its result."""

import dataclasses
import os
import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from tutelage.errors import UsageError
from tutelage.storage.json_files import write_error
from tutelage_cli.config.settings_files import to_plain
from tutelage_cli.runner.run_folder import (
    create_run,
    exists,
    free_folder,
    refuse_taken,
    run_facts,
)
from tutelage_cli.terminal import say
from tutelage_cli.train.args import Train, check_packages, resume_error
from tutelage_cli.train.settings import EMBEDDED, TrainSettings, stored_settings


def train(args: Train) -> bool:
    """Run or resume a study and print its result; False if it was stopped."""
    check_packages(args)
    console = args.output.progress()
    if args.resume is None:
        settings = with_full_paths(args.settings)
        run = args.out or free_folder(Path("runs"), Path(settings.data).name or "run")
        refuse_taken(run)
    else:
        run, settings = args.resume, _resumed_settings(args, args.resume)
    # imported after all checks that need no torch
    from tutelage_cli.train.check import check as check_settings
    from tutelage_cli.train.check import fingerprint
    from tutelage_cli.train.display import Display
    from tutelage_cli.train.file_digests import file_digests, refuse_changed_files
    from tutelage_cli.train.study import run_study
    from tutelage_cli.train.summary import print_summary

    settings = _with_commentary_at_hand(settings, console)
    seconds: dict[str, float] = {}
    source = check_settings(settings, lambda line: say(console, line), seconds)
    files = file_digests(settings)
    facts = {"data": fingerprint(source), "notes": " ".join(source.splits.notes), **files}
    if args.resume is None:
        create_run(run, to_plain(settings), facts)
    elif run_facts(run).get("data") != facts["data"]:
        raise UsageError(f"The data of the run {run} has changed since; start a new run.")
    else:
        refuse_changed_files(run, run_facts(run), files, "start a new run")
    try:
        summary = run_study(
            run,
            settings,
            source,
            Display(console, seconds),
            args.logged_every,
            args.log or "tensorboard",
            args.backend,
        )
    except KeyboardInterrupt:  # a second one, or one while the report is written
        summary = None
    except OSError as error:
        then = f"then go on with: {_continue_command(args, run)}"
        raise UsageError(write_error(error, error.filename or run, then)) from error
    if summary is None:
        command = _continue_command(args, run)
        say(args.output.notice(), f"Stopped. Continue with: {command}")
        return False
    print_summary(args.output.result(), run, summary)
    args.output.document({"run": str(run), **summary})
    return True


def _with_commentary_at_hand(settings: TrainSettings, console: Console) -> TrainSettings:
    # downloaded, where it is on the Hub; says what its card warns of
    if settings.commentary is None:
        return settings
    from tutelage.commentaries import read_card
    from tutelage.commentaries.card import caution
    from tutelage.commentaries.hub import is_address, local_folder

    if is_address(settings.commentary):
        say(console, "Downloading the commentary ...")
    folder = local_folder(settings.commentary).absolute()
    if line := caution(read_card(folder)):
        say(console, line)
    return dataclasses.replace(settings, commentary=folder)


def _continue_command(args: Train, run: Path) -> str:
    return shlex.join(["tutelage", "train", "--resume", str(run), *args.flags_to_resume])


def with_full_paths(settings: TrainSettings) -> TrainSettings:
    """Settings with absolute paths, which hold in any working directory."""

    def full(path: Path | None) -> Path | None:
        address = path is not None and path.parts[:1] == ("hf:",)  # of a commentary
        return path if path is None or address else path.expanduser().absolute()

    data = settings.data
    if data != EMBEDDED and exists(Path(data).expanduser()):
        data = os.path.abspath(Path(data).expanduser())  # noqa: PTH100 - resolves "..", not links
    paths = ("labels_from", "weights_from", "commentary", "student_weights")
    changed: dict[str, Any] = {name: full(getattr(settings, name)) for name in paths}
    for name in ("held_out_from", "test_from"):
        source = getattr(settings, name)
        if source not in (None, EMBEDDED) and exists(Path(source).expanduser()):
            changed[name] = str(full(Path(source)))
    return dataclasses.replace(
        settings, data=data, student=_full_student(settings.student), **changed
    )


def _full_student(student: str | None) -> str | None:
    # a folder of transformers, or FILE.py:FUNCTION; the other names stay as they are
    path, colon, function = (student or "").rpartition(".py:")
    place = Path(f"{path}.py" if colon else student or "").expanduser()
    if colon and exists(place):
        return f"{place.absolute()}:{function}"
    return str(place.absolute()) if student and exists(place / "config.json") else student


def _resumed_settings(args: Train, run: Path) -> TrainSettings:
    stored = stored_settings(run)
    if args.settings != stored or args.out is not None:
        raise UsageError(resume_error(run))
    return stored

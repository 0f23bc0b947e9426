"""``tutelage train``: what is refused before the start, what is printed, and what stops it."""

import dataclasses
import os
import shlex
from pathlib import Path
from typing import Any

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
from tutelage_cli.train.args import Train, check_log, keeps_settings
from tutelage_cli.train.settings import EMBEDDED, TrainSettings
from tutelage_cli.train.stored import stored_settings


def train(asked: Train) -> bool:
    """Run or continue a study and print what came of it."""
    check_log(asked)
    console = asked.output.progress()
    if asked.resume is None:
        settings = with_full_paths(asked.settings)
        run = asked.out or free_folder(Path("runs"), Path(settings.data).name or "run")
        refuse_taken(run)
    else:
        run, settings = asked.resume, _own_settings(asked, asked.resume)
    say(console, "Reading the data ...")
    # torch comes in here, after everything that can be refused without it
    from tutelage.commentaries import read_card
    from tutelage.commentaries.caution import caution
    from tutelage_cli.train.check import check as check_settings
    from tutelage_cli.train.check import fingerprint
    from tutelage_cli.train.display import Display
    from tutelage_cli.train.printed import tell
    from tutelage_cli.train.study import run_study

    source = check_settings(settings, lambda line: say(console, line))
    if settings.commentary is not None and (line := caution(read_card(settings.commentary))):
        say(console, line)
    facts = {"data": fingerprint(source), "notes": " ".join(source.splits.notes)}
    if asked.resume is None:
        create_run(run, to_plain(settings), facts)
    elif run_facts(run).get("data") != facts["data"]:
        raise UsageError(f"The data of the run {run} has changed since; start a new run.")
    try:
        summary = run_study(run, settings, source, Display(console), asked.logged_every)
    except KeyboardInterrupt:  # a second one, or one while the report is written
        summary = None
    except OSError as error:
        then = f"then go on with: {_way(asked, run)}"
        raise UsageError(write_error(error, error.filename or run, then)) from error
    if summary is None:
        way = _way(asked, run)
        say(console, f"Stopped. Continue with: {way}")
        return False
    tell(asked.output.result(), run, summary)
    asked.output.document({"run": str(run), **summary})
    return True


def _way(asked: Train, run: Path) -> str:
    return shlex.join(["tutelage", "train", "--resume", str(run), *asked.log_flags])


def with_full_paths(settings: TrainSettings) -> TrainSettings:
    """The same settings wherever they are read again."""

    def full(path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    data = settings.data
    if data != EMBEDDED and exists(Path(data).expanduser()):
        data = os.path.abspath(Path(data).expanduser())  # noqa: PTH100 - resolves "..", not links
    paths = ("labels_from", "weights_from", "commentary", "student_weights")
    own: dict[str, Any] = {name: full(getattr(settings, name)) for name in paths}
    for name in ("held_out_from", "test_from"):
        source = getattr(settings, name)
        if source not in (None, EMBEDDED) and exists(Path(source).expanduser()):
            own[name] = str(full(Path(source)))
    return dataclasses.replace(
        settings, data=data, student=_full_student(settings.student), **own
    )


def _full_student(student: str | None) -> str | None:
    # a folder of transformers, or FILE.py:FUNCTION; the other names stay as they are
    path, colon, function = (student or "").rpartition(".py:")
    place = Path(f"{path}.py" if colon else student or "").expanduser()
    if colon and exists(place):
        return f"{place.absolute()}:{function}"
    return str(place.absolute()) if student and exists(place / "config.json") else student


def _own_settings(asked: Train, run: Path) -> TrainSettings:
    stored = stored_settings(run)
    if asked.settings != stored or asked.out is not None:
        raise UsageError(keeps_settings(run))
    return stored

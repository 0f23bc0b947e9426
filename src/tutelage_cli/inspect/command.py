"""``tutelage inspect``: what is printed and what is written."""

from tutelage.errors import UsageError
from tutelage.storage.atomic_files import write_atomically
from tutelage.storage.json_files import write_error
from tutelage_cli.inspect.args import Inspect, check
from tutelage_cli.terminal import say

EXAMPLES, SUSPECTS, PAGE = "examples.csv", "likely-wrong.csv", "index.html"


def inspect(asked: Inspect) -> None:
    """Say what a run distrusts, and write it down."""
    check(asked)
    progress = asked.output.progress()
    say(progress, f"Reading {asked.run} ...")
    # what computes comes in here, after everything that can be refused without it
    from tutelage_cli.inspect.findings import inspect as look
    from tutelage_cli.inspect.page import page
    from tutelage_cli.inspect.plain import as_plain
    from tutelage_cli.inspect.printed import tell
    from tutelage_cli.inspect.sheet import sheet
    from tutelage_cli.report.page import write_page

    found = look(asked)
    beside = asked.run.with_name(f"{asked.run.stem}-inspection")
    out = asked.out or (beside if found.run is None else asked.run / "inspection")
    say(progress, "Drawing the page ...")
    drawn = page(found, asked)
    files = {"examples": out / EXAMPLES, "likely_wrong": out / SUSPECTS, "page": out / PAGE}
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(files["examples"], sheet(found.labels))
        if found.labels.accused is None:
            files.pop("likely_wrong").unlink(missing_ok=True)  # of an earlier look
        else:
            content = sheet(found.labels, found.labels.accused)
            write_atomically(files["likely_wrong"], content)
        write_page(drawn.html, files["page"])
    except OSError as error:
        then = "or name another folder with --out"
        raise UsageError(write_error(error, error.filename or out, then)) from error
    result = asked.output.result()
    tell(result, found, asked.top)
    for note in drawn.notes:
        say(result, note)
    for name, file in files.items():
        say(result, f"{name.replace('_', ' ').capitalize() + ':':14}{file}")
    asked.output.document(as_plain(found, asked.top, files, drawn.notes))

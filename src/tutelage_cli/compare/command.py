"""``tutelage report``: what is printed and what is written."""

from tutelage.errors import UsageError
from tutelage.storage.json_files import write_error
from tutelage_cli.compare.args import Report
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.terminal import say


def report(asked: Report) -> None:
    """Compare runs, and draw their page."""
    if not asked.runs:
        raise UsageError("report needs at least one run: tutelage report runs/x runs/y")
    for folder in asked.runs:
        if not exists(folder):
            raise UsageError(f"There is no run {folder}.")
    say(asked.speech.progress(), f"Reading {len(asked.runs)} runs ...")
    # what computes comes in here, after everything that can be refused without it
    from tutelage_cli.compare.page import as_plain, page, tell
    from tutelage_cli.compare.runs import compare
    from tutelage_cli.report.page import write_page

    compared = compare(asked.runs)
    try:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        write_page(page(compared), asked.out)
    except OSError as error:
        then = "or name another file with --out"
        raise UsageError(write_error(error, asked.out, then)) from error
    result = asked.speech.result()
    tell(result, compared)
    say(result, f"Page: {asked.out}")
    asked.speech.document(as_plain(compared, {"page": asked.out}))

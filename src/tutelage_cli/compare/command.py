"""``tutelage report``: reads runs, prints tables and writes a page."""

from tutelage.errors import UsageError
from tutelage.storage.json_files import write_error
from tutelage_cli.compare.args import Report
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.terminal import say


def report(args: Report) -> None:
    """Compare runs, print the tables and write the page."""
    if not args.runs:
        raise UsageError("report needs at least one run: tutelage report runs/x runs/y")
    for folder in args.runs:
        if not exists(folder):
            raise UsageError(f"There is no run {folder}.")
    say(args.output.progress(), f"Reading {len(args.runs)} runs ...")
    # imported after all checks that need no torch
    from tutelage_cli.compare.page import as_plain, page, print_tables
    from tutelage_cli.compare.runs import compare
    from tutelage_cli.report.page import write_page

    compared = compare(args.runs)
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_page(page(compared), args.out)
    except OSError as error:
        then = "or name another file with --out"
        raise UsageError(write_error(error, args.out, then)) from error
    result = args.output.result()
    print_tables(result, compared)
    say(result, f"Page: {args.out}")
    args.output.document(as_plain(compared, {"page": args.out}))

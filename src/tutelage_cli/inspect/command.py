"""The command ``tutelage inspect``: prints the result and writes its files."""

from tutelage.errors import UsageError
from tutelage.storage.atomic_files import write_atomically
from tutelage.storage.json_files import write_error
from tutelage_cli.inspect.args import Inspect, check
from tutelage_cli.terminal import say

EXAMPLES, SUSPECTS, PAGE = "examples.csv", "likely-wrong.csv", "index.html"


def inspect(args: Inspect) -> None:
    """Print the most suspect labels of a run, and write files."""
    check(args)
    progress = args.output.progress()
    say(progress, f"Reading {args.run} ...")
    # what computes comes in here, after everything that can be refused without it
    from tutelage_cli.inspect.csv_table import csv_bytes
    from tutelage_cli.inspect.findings import inspect_run
    from tutelage_cli.inspect.json_output import as_json
    from tutelage_cli.inspect.page import page
    from tutelage_cli.inspect.terminal_output import print_inspection
    from tutelage_cli.report.page import write_page

    inspection = inspect_run(args)
    beside = args.run.with_name(f"{args.run.stem}-inspection")
    out = args.out or (beside if inspection.run is None else args.run / "inspection")
    fixed, done = None, []
    if args.fix is not None:
        # with PyTorch, which tables of losses do without
        from tutelage_cli.inspect.fix.command import fix, sentences

        fixed = fix(args, inspection)
        done = sentences(fixed)
    say(progress, "Drawing the page ...")
    html_page = page(inspection, args)
    files = {"examples": out / EXAMPLES, "likely_wrong": out / SUSPECTS, "page": out / PAGE}
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(files["examples"], csv_bytes(inspection.labels))
        if inspection.labels.flagged is None:
            files.pop("likely_wrong").unlink(missing_ok=True)  # of an earlier inspection
        else:
            content = csv_bytes(inspection.labels, inspection.labels.flagged)
            write_atomically(files["likely_wrong"], content)
        write_page(html_page.html, files["page"])
    except OSError as error:
        then = "or name another folder with --out"
        raise UsageError(write_error(error, error.filename or out, then)) from error
    result = args.output.result()
    print_inspection(result, inspection, args.top)
    for note in html_page.notes:
        say(result, note)
    for name, file in files.items():
        say(result, f"{name.replace('_', ' ').capitalize() + ':':14}{file}")
    for line in done:
        say(result, line)
    document = as_json(inspection, args.top, files, html_page.notes)
    args.output.document(document | {"fix": None if fixed is None else fixed.as_json()})

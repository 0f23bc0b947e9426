"""Terminal output of a finished study."""

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from tutelage_cli.report import HEADER, caption, rows
from tutelage_cli.report.table import MEMORY
from tutelage_cli.terminal import say, say_table
from tutelage_cli.train.summary import data_line, report_arms


def print_summary(console: Console, run: Path, summary: dict[str, Any]) -> None:
    """Print the table of a study, its verdict, and where its files are."""
    arms = report_arms(summary)
    say(console, data_line(summary["data"]))
    say_table(console, HEADER, rows(arms), title=caption(arms), spare=(MEMORY,))
    for sentence in summary["verdict"]:
        console.print(sentence, markup=False, highlight=False)
    say(console, f"\nRun:        {run}")
    say(console, f"Report:     {run / 'report.html'}")
    if (run / "commentary").exists():
        say(console, f"Commentary: {run / 'commentary'}")
    if any(run.glob("students/*/tensorboard")):
        say(console, f"Curves:     {shlex.join(['tensorboard', '--logdir', str(run)])}")

"""What a person reads in the terminal when a study has ended."""

import shlex
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tutelage.report import HEADER, caption, rows
from tutelage.report.table import MEMORY
from tutelage.study.summary import data_line, report_arms

NARROW = 76
"""columns of a terminal below which the table is told line by line"""
ROOMY = 84
"""columns from which on memory has room in the table"""


def tell(console: Console, run: Path, summary: dict[str, Any]) -> None:
    """Print the table of a study, its verdict, and where its files are.

    Args:
        console: Where to.
        run: The run's folder.
        summary: The content of ``summary.json``.
    """

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    arms = report_arms(summary)
    say(data_line(summary["data"]))
    lines = [dict(zip(HEADER, row, strict=True)) for row in rows(arms)]
    shown = [name for name in HEADER if console.width >= ROOMY or name != MEMORY]
    table = Table(*shown, title=caption(arms), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.columns[0].no_wrap = True
    table.columns[1].min_width = max(len(line[HEADER[1]]) for line in lines)
    for line in lines:
        table.add_row(*(escape(line[name]) for name in shown))
    if console.width >= NARROW:
        console.print(table)
    else:  # a table would cut its numbers
        for line in lines:
            say("; ".join(f"{name}: {value}" for name, value in line.items()))
    for sentence in summary["verdict"]:
        console.print(sentence, markup=False, highlight=False)
    say(f"\nRun:        {run}")
    say(f"Report:     {run / 'report.html'}")
    if (run / "commentary").exists():
        say(f"Commentary: {run / 'commentary'}")
    if any(run.glob("students/*/tensorboard")):
        say(f"Curves:     {shlex.join(['tensorboard', '--logdir', str(run)])}")

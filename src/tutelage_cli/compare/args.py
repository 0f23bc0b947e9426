"""Arguments of ``tutelage report``; imports nothing heavy, so that ``--help`` is fast."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from tutelage_cli.terminal import Output

REPORT_HELP = """Compare runs: a table, differences paired by seed, and a page with curves.

Examples:
  tutelage report runs/x runs/y
  tutelage report runs/* --out comparison.html
  tutelage report runs/x runs/y --json"""


@dataclass(frozen=True)
class Report:
    """Arguments of ``tutelage report``."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs."""

    out: Path = Path("comparison.html")
    """The HTML page."""

    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)

"""The report of a run: a self-contained HTML page, and its table as strings for a terminal.

The caller fills a ``RunContent``; ``render`` turns it into a page and ``write`` writes that to
a file. ``HEADER`` and ``rows`` give the same table to a terminal. Records are optional: a
section without its record is left out.
"""

from tutelage_cli.report.content import (
    Arm,
    Augmentation,
    ClassWeights,
    Curve,
    Example,
    Examples,
    LeastTrusted,
    RunContent,
)
from tutelage_cli.report.page import render, write
from tutelage_cli.report.table import HEADER, caption, rows

__all__ = [
    "HEADER",
    "Arm",
    "Augmentation",
    "ClassWeights",
    "Curve",
    "Example",
    "Examples",
    "LeastTrusted",
    "RunContent",
    "caption",
    "render",
    "rows",
    "write",
]

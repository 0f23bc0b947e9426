"""The report of a run: a self-contained HTML page, and its table as strings for a terminal.

The caller fills a ``RunContent``; ``render`` turns it into a page and ``write`` puts that into
a file. ``HEADER`` and ``rows`` give the same table to a terminal.
"""

from tutelage.report.content import (
    Arm,
    Augmentation,
    ClassWeights,
    Curve,
    Examples,
    Picture,
    Pictures,
    RunContent,
)
from tutelage.report.page import render, write
from tutelage.report.table import HEADER, caption, rows

__all__ = [
    "HEADER",
    "Arm",
    "Augmentation",
    "ClassWeights",
    "Curve",
    "Examples",
    "Picture",
    "Pictures",
    "RunContent",
    "caption",
    "render",
    "rows",
    "write",
]

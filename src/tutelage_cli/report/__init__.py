"""The report of a run: a self-contained HTML page, and its table as strings for a terminal.

The caller fills a ``RunContent``; ``render`` turns it into a page and ``write`` writes that to
a file. ``HEADER`` and ``rows`` give the same table to a terminal. Records are optional: a
section without its record is left out.
"""

from tutelage_cli.report.content import Arm, ClassWeights, Curve, Examples, RunContent
from tutelage_cli.report.distributions import Augmentation, Splits
from tutelage_cli.report.examples import Copied, Copies, Picture, Pictures, Sentence, Sentences
from tutelage_cli.report.page import render, write
from tutelage_cli.report.table import HEADER, caption, rows

__all__ = [
    "HEADER",
    "Arm",
    "Augmentation",
    "ClassWeights",
    "Copied",
    "Copies",
    "Curve",
    "Examples",
    "Picture",
    "Pictures",
    "RunContent",
    "Sentence",
    "Sentences",
    "Splits",
    "caption",
    "render",
    "rows",
    "write",
]

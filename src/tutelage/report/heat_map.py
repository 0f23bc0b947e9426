"""A grid of values as a table whose cells are the darker the higher they are."""

from collections.abc import Sequence
from html import escape

import numpy as np
from jaxtyping import Float

from tutelage.report import formats
from tutelage.report.looks import BLUE

DARKEST = 65
"""percent of colour in the cell of the highest value"""


def heat_map(caption: str, names: Sequence[str], values: Float[np.ndarray, "C C"]) -> str:
    """A table of C rows and columns of the same names, shaded from its least to its most.

    Args:
        caption: Text; say there what rows and columns are.
        names: Of rows and columns.
        values: The values.

    Returns:
        A ``<div>`` around a ``<table>``.
    """
    low, high = float(values.min()), float(values.max())
    spread = max(high - low, 1e-9)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = ""
    for name, row in zip(names, values.tolist(), strict=True):
        cells = "".join(_cell(value, (value - low) / spread) for value in row)
        body += f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f'<table class="heat"><caption>{escape(caption)}</caption>'
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(value: float, share: float) -> str:
    mixed = f"color-mix(in srgb, {BLUE} {DARKEST * share:.0f}%, transparent)"
    return f'<td style="background: {mixed}">{formats.number(value)}</td>'

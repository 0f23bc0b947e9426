"""Heat map of values by row and column."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from jaxtyping import Float

from tutelage_cli.report import elements, formats
from tutelage_cli.report.channels import TOOLTIP, tooltip
from tutelage_cli.report.interactive import WIDE, WIDTH, drawing
from tutelage_cli.report.styles import BLUE, INK

MOST_LABELLED = 12
"""largest number of columns with values written in the cells"""
FAINTEST, STRONGEST = 0.03, 0.65
"""opacity of the cells of the lowest and of the highest value"""
NAMED, SHORT = 15, 3
"""most column names in a row, and the length up to which a name is never rotated"""
LETTER, ACROSS = 6.5, 300
"""width of a letter and of the plotting area in pixels, about"""


class Grid(NamedTuple):
    """Values by row and column."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Float[np.ndarray, "R C"]
    """NaN where there is none"""
    labels: tuple[str, str, str]
    """what rows, columns and values are"""


def grid(matrix: Grid, *, mark: str, title: str) -> str:
    """A heat map; darker cells have higher values."""
    rows = [
        {
            "row": name,
            "column": column,
            "value": value,
            "tooltip": tooltip(matrix.labels, (name, column, formats.number(value))),
            "shown": f"{value:.2f}",
        }
        for name, line in zip(matrix.rows, matrix.values.tolist(), strict=True)
        for column, value in zip(matrix.columns, line, strict=True)
        if np.isfinite(value)
    ]
    base = alt.Chart().encode(
        x=alt.X("column:N", title=matrix.labels[1], **_named(matrix.columns, turned=True)),
        y=alt.Y("row:N", title=matrix.labels[0], **_named(matrix.rows)),
        tooltip=TOOLTIP,
    )
    scale = alt.Scale(zero=False, nice=False, range=[FAINTEST, STRONGEST])
    shade = alt.FillOpacity("value:Q", legend=None, scale=scale)
    layers = [base.mark_rect(fill=BLUE).encode(fillOpacity=shade)]
    if len(matrix.columns) <= MOST_LABELLED:
        layers.append(
            base.mark_text(color=INK, fontSize=9.5, aria=False).encode(text="shown:N")
        )
    wide = len(matrix.columns) > MOST_LABELLED and len(matrix.rows) > MOST_LABELLED
    chart = alt.layer(*layers, data=alt.NamedData("rows")).properties(
        width=WIDE + 80 if wide else WIDTH,
        height=110 + max(16, 24 - len(matrix.rows) // 2) * len(matrix.rows),
    )
    cells = [
        (name, *map(formats.number, line))
        for name, line in zip(matrix.rows, matrix.values.tolist(), strict=True)
    ]
    header = (f"{matrix.labels[0]}, {matrix.labels[1]}", *matrix.columns)
    data = {"rows": rows}
    shown = drawing(chart, mark=mark, title=title, data=data, numbers=(header, cells))
    return shown + elements.paragraph(_key(matrix), style="note")


def _key(matrix: Grid) -> str:
    finite = matrix.values[np.isfinite(matrix.values)]
    if not finite.size:
        return "There is no value to show."
    low, high = (formats.number(float(end)) for end in (finite.min(), finite.max()))
    return f"The stronger a cell's colour, the higher its {matrix.labels[2]}: {low} to {high}."


def _named(names: Sequence[str], *, turned: bool = False) -> dict[str, Any]:
    longest = max(map(len, names), default=0)
    crowded = longest * LETTER > ACROSS / max(len(names), 1)
    angle = -90 if turned and crowded and longest > SHORT else 0
    every = 1 + (len(names) - 1) // NAMED if turned and not angle else 1
    axis = alt.Axis(
        grid=False,
        ticks=False,
        domain=False,
        labelLimit=90,
        labelAngle=angle,
        values=list(names[::every]),
    )
    return {"scale": alt.Scale(domain=list(names)), "axis": axis}

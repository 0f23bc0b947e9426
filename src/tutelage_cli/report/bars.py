"""Named values as bars."""

from collections.abc import Mapping
from types import MappingProxyType

import altair as alt

from tutelage_cli.report.channels import TOOLTIP, with_range
from tutelage_cli.report.interactive import drawing
from tutelage_cli.report.styles import BLUE, INK


def bars(
    values: Mapping[str, float],
    label: str,
    *,
    mark: str,
    title: str,
    ends: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> str:
    """Named values as bars, the first on top."""
    cells = [
        (name, with_range(value, *ends.get(name, (value, value))))
        for name, value in values.items()
    ]
    rows = [
        {
            "name": name,
            "value": value,
            "low": low,
            "high": high,
            "tooltip": f"{name}: {value_text}",
        }
        for (name, value), (_, value_text) in zip(values.items(), cells, strict=True)
        for low, high in (ends.get(name, (value, value)),)
    ]
    header = ("name", label)
    y = alt.Y(
        "name:N", sort=None, title=None, axis=alt.Axis(grid=False, ticks=False, domain=False)
    )
    base = alt.Chart().encode(y=y, tooltip=TOOLTIP)
    bar = base.mark_bar(color=BLUE, height={"band": 0.65}).encode(
        x=alt.X("value:Q", title=label, scale=alt.Scale(zero=True))
    )
    across = base.mark_rule(color=INK, strokeWidth=1.4, aria=False).encode(
        x="low:Q", x2="high:Q"
    )
    layers = (bar, across) if ends else (bar,)
    chart = alt.layer(*layers, data=alt.NamedData("rows")).properties(
        height=56 + 17 * len(values)
    )
    data = {"rows": rows}
    return drawing(chart, mark=mark, title=title, data=data, numbers=(header, cells))

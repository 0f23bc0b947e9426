"""A learned augmentation policy: how likely each operation is kept, and how strong it is."""

from collections.abc import Mapping
from types import MappingProxyType

import altair as alt
import numpy as np

from tutelage_cli.report import elements, formats, plots, styles
from tutelage_cli.report.channels import TOOLTIP, with_range
from tutelage_cli.report.content import Augmentation, RunContent
from tutelage_cli.report.interactive import drawing
from tutelage_cli.report.styles import BLUE, INK

MOST = 3
"""operations whose history is drawn, of those kept most and of those kept least"""


def section(content: RunContent, name: str, *, anchor: str) -> str:
    """The policy of one arm."""
    learned = next((policy for policy in content.augmentations if policy.arm == name), None)
    if learned is None:
        return ""
    title = f"Which augmentations were kept: {name}"
    return elements.section(title, drawn(learned, mark=anchor), anchor=anchor)


def drawn(policy: Augmentation, *, mark: str) -> str:
    """Bars of all operations, their history, and the number of operations per image."""
    order = np.argsort(-policy.keep.mean(0), kind="stable")
    strong = order[~np.isnan(policy.level[:, order]).any(0)]
    drawn = (
        _bars(
            policy,
            "Probability to be kept, once drawn",
            "probability",
            policy.keep,
            order,
            mark,
        ),
        _bars(
            policy,
            f"Expected level, 0 to {policy.highest}",
            "level",
            policy.level,
            strong,
            mark,
        ),
    )
    html = f'<div class="charts">{"".join(drawn)}</div>{_over_time(policy, order, mark)}'
    many = {str(n): formats.number(float(p)) for n, p in enumerate(policy.how_many.mean(0), 1)}
    html += elements.pairs("Operations drawn for an image: probability", many)
    seeds = len(policy.keep)
    over = (
        f"Bars: mean over {seeds} seeds; lines: lowest to highest seed. " if seeds > 1 else ""
    )
    note = (
        f"{over}Where all logits are zero, as at first, every operation is kept with "
        f"probability 0.5 and has the expected level {policy.highest / 2:g}."
    )
    return html + elements.paragraph(note, style="note")


def _bars(
    policy: Augmentation,
    caption: str,
    label: str,
    values: np.ndarray,
    order: np.ndarray,
    mark: str,
) -> str:
    shown = {policy.operations[row]: float(values[:, row].mean()) for row in order}
    ends = {
        policy.operations[row]: (float(values[:, row].min()), float(values[:, row].max()))
        for row in order
        if len(values) > 1
    }
    title = f"{caption}, by operation."
    drawing = bar_chart(shown, label, ends=ends, mark=f"{mark}-{label}", title=title)
    return elements.chart(caption, drawing)


def _over_time(policy: Augmentation, order: np.ndarray, mark: str) -> str:
    if len(policy.steps) < 2:
        return ""
    ends = list(dict.fromkeys([*order[:MOST], *order[-MOST:]]))
    one = ", one seed" if len(policy.keep) > 1 else ""
    parts = ""
    for column, caption, rows in (
        (0, "Probability to be kept", ends),
        (
            1,
            "Expected level",
            [row for row in ends if not np.isnan(policy.level[:, row]).any()],
        ),
    ):
        tracks = {policy.operations[row]: policy.past[:, row, column].tolist() for row in rows}
        drawing = plots.lines(
            [float(step) for step in policy.steps],
            tracks,
            ("augmented steps", caption.lower()),
            mark=f"{mark}-past-{column}",
            title=f"{caption} over training{one}, of the operations kept most and least.",
        )
        chart = elements.chart(f"{caption} over training{one}", drawing)
        parts += f"<div>{chart}{styles.arm_legend(list(tracks))}</div>"
    return f'<div class="charts">{parts}</div>'


def bar_chart(
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

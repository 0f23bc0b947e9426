"""Test accuracy over the number of checked labels, for each data set with several."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator, ScalarFormatter

from papers.framework.figure import stroke, svg
from papers.pays.cells import CELLS, LEARNED
from papers.pays.rows import OURS, UNTAUGHT, accuracies, contents
from tutelage.storage.atomic_files import write_atomically
from tutelage_cli.report import styles

SHOWN = (
    UNTAUGHT,
    OURS,
    *LEARNED,
    "regularised",
    "pruned",
    "forward-corrected",
    "checked-only",
    "fine-tuned",
)
"""colours repeat after the fifth, with other markers and dashes"""
LEAST = 3
"""numbers of checked labels that make a curve"""
Points = Mapping[str, Mapping[int, Sequence[float]]]
"""accuracies of seeds, by arm and number of checked labels"""


def curves(out: Path) -> dict[str, Points]:
    """What has run of each data set with its noise that has a curve."""
    found, named = contents(out), {cell.name: cell for cell in CELLS}
    by_data: dict[str, dict[str, dict[int, Sequence[float]]]] = {}
    for name, content in found.items():
        data = name.removesuffix(f"-{named[name].checked}{named[name].kind}")
        points = by_data.setdefault(data + named[name].kind, {arm: {} for arm in SHOWN})
        for arm, values in accuracies(content["arms"]).items():
            if arm in SHOWN:
                points[arm][named[name].checked] = values
    return {data: arms for data, arms in by_data.items() if len(arms[UNTAUGHT]) >= LEAST}


def write_curves(out: Path) -> None:
    """Draw every curve beside the results of its cells."""
    for data, points in curves(out).items():
        file = out / "results" / "pays" / f"{data}.svg"
        write_atomically(file, drawn(data, points).encode())


def drawn(data: str, points: Points) -> str:
    """A curve as an SVG document."""

    def draw(figure: Figure) -> str:
        _paint(figure.subplots(), points)
        return f"Test accuracy over the number of checked labels, {data}"

    return svg((6.4, 3.8), draw)


def _paint(axes: Axes, points: Points) -> None:
    lines: Mapping[str, Any] = styles.arm_styles(SHOWN)
    counts = sorted(points[UNTAUGHT])
    for arm in filter(points.get, SHOWN):
        at = sorted(points[arm])
        values = [np.array(points[arm][n]) for n in at]
        mean = [float(v.mean()) for v in values]
        low, high = [float(v.min()) for v in values], [float(v.max()) for v in values]
        colour = lines[arm].colour
        axes.fill_between(at, low, high, color=colour, alpha=styles.TINT / 2, linewidth=0)
        axes.plot(at, mean, **(stroke(lines[arm]) | {"ms": 3, "label": arm}))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel="checked labels", ylabel="test accuracy, %")
    handles, labels = axes.get_legend_handles_labels()
    last = [float(np.mean(points[arm][max(points[arm])])) for arm in labels]
    order = sorted(range(len(labels)), key=lambda place: -last[place])
    axes.legend(  # in the order of the lines at their right end
        [handles[place] for place in order],
        [labels[place] for place in order],
        fontsize=8,
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
    )

"""Sampling probabilities of the parts of the data over a run."""

import numpy as np

from tutelage_cli.report import elements, formats, plots, styles
from tutelage_cli.report.content import RunContent
from tutelage_cli.report.distributions import Splits
from tutelage_cli.report.plots import Line
from tutelage_cli.report.tracks import Track

NOTE = "Line: mean over seeds. Band: lowest to highest seed. Initially all are equally likely."


def section(content: RunContent, name: str, *, anchor: str) -> str:
    """The probabilities of one arm's parts."""
    drawn = next((of for of in content.splits if of.arm == name), None)
    if drawn is None:
        return ""
    title = f"Where batches were drawn from: {name}"
    return elements.section(title, _body(drawn, mark=f"{anchor}-parts"), anchor=anchor)


def _body(of: Splits, *, mark: str) -> str:
    seen = of.probabilities.astype(np.float64)
    steps, mean = np.array(of.steps), seen.mean(0)
    low, high = seen.min(0), seen.max(0)
    lines = [
        Line(part, style, Track(steps, mean[:, k], low[:, k], high[:, k]))
        for k, (part, style) in enumerate(styles.arm_styles(of.parts).items())
    ]
    at_end = zip(of.parts, mean[-1].tolist(), strict=True)
    last = "; ".join(f"{part}: {formats.number(p)}" for part, p in at_end)
    title = f"Probability of each part over student steps. At the end {last}."
    drawing = plots.line_chart(lines, ("student steps", "probability"), mark=mark, title=title)
    key = styles.legend([(line.name, line.style) for line in lines])
    chart = elements.chart("Probability of each part", drawing)
    return f"{key}{chart}{elements.paragraph(NOTE, style='note')}"

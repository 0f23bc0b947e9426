"""Examples with their copies and the weight of each copy."""

from html import escape

import numpy as np

from tutelage_cli.report import elements, formats
from tutelage_cli.report.content import RunContent
from tutelage_cli.report.examples import Copied
from tutelage_cli.report.pictures import pictured

HEADER: tuple[str, ...] = ("Copy", "Text", "Weight", "Loss")
NOTE = (
    "The weights of an example's copies sum to one: if a copy has weight 1, the student "
    "learned from that copy alone."
)


def section(content: RunContent, name: str, *, anchor: str) -> str:
    """Some examples of an arm with their copies."""
    of = next((of for of in content.copies if of.arm == name and of.examples), None)
    if of is None:
        return ""
    body = elements.paragraph(NOTE, style="note") + "".join(map(_example, of.examples))
    return elements.section(f"Copies and how they counted: {name}", body, anchor=anchor)


def _example(of: Copied) -> str:
    title = f"Example {of.id}, labelled {of.given}"
    facts = [
        (copy, formats.number(weight), formats.number(loss))
        for copy, weight, loss in zip(of.copies, of.weights, of.losses, strict=True)
    ]
    texts = [
        (str(n), copy, weight, loss)
        for n, (copy, weight, loss) in enumerate(facts, 1)
        if isinstance(copy, str)
    ]
    figures = "".join(
        pictured(
            copy,
            f"{title}, copy {n}",
            {"weight": weight, "loss": loss},
            kind="unknown",
        )
        for n, (copy, weight, loss) in enumerate(facts, 1)
        if isinstance(copy, np.ndarray)
    )
    shown = f'<h3>{escape(title)}</h3><div class="gallery">{figures}</div>' if figures else ""
    return shown + (elements.table(title, HEADER, texts, style="texts") if texts else "")

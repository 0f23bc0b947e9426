"""The few HTML elements that sections are made of; all text is escaped here."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def section(title: str, body: str, *, anchor: str) -> str:
    """A section with a heading."""
    heading = f'<h2 id="{anchor}-heading">{escape(title)}</h2>'
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-heading">{heading}{body}</section>'
    )


def paragraph(text: str, *, style: str) -> str:
    """A paragraph."""
    return f'<p class="{style}">{escape(text)}</p>' if text else ""


def chart(caption: str, drawing: str) -> str:
    """A drawing under its caption."""
    return f'<figure class="chart"><figcaption>{escape(caption)}</figcaption>{drawing}</figure>'


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, style: str
) -> str:
    """A table whose first column heads its rows, in a box that scrolls sideways.

    Where scripts run, its rows can be sorted by any column.
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f'<table class="{style} sortable"><caption><span>{escape(caption)}</span></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def pairs(caption: str, values: Mapping[str, str]) -> str:
    """A table of names and values."""
    if not values:
        return ""
    body = "".join(f"<tr>{_cells(pair)}</tr>" for pair in values.items())
    return (
        '<div class="scroll"><table class="pairs">'
        f"<caption><span>{escape(caption)}</span></caption><tbody>{body}</tbody></table></div>"
    )


def _cells(row: Sequence[str]) -> str:
    first, *rest = (escape(cell) for cell in row)
    return f'<th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest)

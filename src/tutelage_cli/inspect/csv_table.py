"""Labels as a CSV file that a spreadsheet opens and runs nothing of."""

import csv
import io
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from tutelage_cli.inspect.combined import Labels

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""what a spreadsheet takes for the start of a formula"""


def csv_bytes(labels: Labels, only: Bool[np.ndarray, "N"] | None = None) -> bytes:
    """All labels, or some, a row for each."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(_header(labels))
    for row in range(len(labels)):
        if only is None or only[row]:
            writer.writerow(list(_cells(labels, row)))
    return file.getvalue().encode("utf-8-sig", errors="backslashreplace")


def harmless(text: str) -> str:
    """A text that no spreadsheet computes."""
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA) or text[:1] in FORMULA else text


def _header(labels: Labels) -> list[str]:
    names = ["rank", "name", "given", "predicted"]
    names += ["true"] if labels.true is not None else []
    names += ["flagged"] if labels.flagged is not None else []
    names += ["probability_wrong"] if labels.wrong is not None else []
    names += ["weight", "loss", "students", "distrusted_by"]
    names += ["text"] if labels.texts is not None else []
    names += [f"loss_epoch_{epoch}" for epoch in labels.epochs]
    return [*names, *(f"weight_epoch_{epoch}" for epoch in labels.epochs)]


def _cells(labels: Labels, row: int) -> Iterator[str | int]:
    yield row + 1
    yield harmless(labels.names[row])
    yield harmless(labels.given[row])
    yield harmless(labels.predicted[row])
    if labels.true is not None:
        yield harmless(labels.true[row])
    if labels.flagged is not None:
        yield int(labels.flagged[row])
    if labels.wrong is not None:
        yield _number(float(labels.wrong[row].mean()))
    for value in (labels.weights[row], labels.losses[row]):
        yield _number(value)
    yield int(labels.students[row])
    yield int(labels.distrusted[row])
    if labels.texts is not None:
        yield harmless(labels.texts[row])
    for past in (labels.past_losses, labels.past_weights):
        for value in past[row] if past is not None else ():
            yield _number(value)


def _number(value: float) -> str:
    return f"{value:.6g}" if np.isfinite(value) else ""

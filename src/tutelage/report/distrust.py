"""What one teacher distrusts most, in words and as a table for data that is not pictures."""

from collections.abc import Sequence

import numpy as np

from tutelage.report import formats
from tutelage.report.content import Examples

SHOWN = 12
HEADER: tuple[str, ...] = ("Example", "Given", "Predicted", "True", "Weight", "Loss")


def summary(examples: Examples) -> str:
    """Count the wrong labels in the tenth of examples that weighs least, ties included.

    Args:
        examples: One seed of a taught arm.

    Returns:
        A sentence; empty where the truth is unknown.
    """
    if examples.true is None or not np.isfinite(examples.weights).any():
        return ""
    wrong = examples.given != examples.true
    limit = np.nanquantile(examples.weights, 0.1, method="lower")
    least = wrong[examples.weights <= limit]
    return (
        f"Of the {len(least):,} examples with the lowest weight, {least.sum():,} carry a wrong "
        f"label ({100 * least.mean():.1f} %); of all {len(wrong):,} training "
        f"examples, {wrong.sum():,} do ({100 * wrong.mean():.1f} %)."
    )


def rows(examples: Examples, classes: Sequence[str]) -> list[tuple[str, ...]]:
    """The ``SHOWN`` examples of lowest weight, under ``HEADER``; ties: higher loss first.

    Args:
        examples: One seed of a taught arm.
        classes: Names by label; a label beyond them is written as its number.

    Returns:
        As many strings per row as ``HEADER`` has.
    """
    least = np.lexsort((-examples.losses, examples.weights))[:SHOWN]
    return [
        (
            str(examples.ids[i]),
            _name(int(examples.given[i]), classes),
            _name(int(examples.predicted[i]), classes),
            formats.DASH if examples.true is None else _name(int(examples.true[i]), classes),
            formats.number(float(examples.weights[i])),
            formats.number(float(examples.losses[i])),
        )
        for i in least
    ]


def _name(label: int, classes: Sequence[str]) -> str:
    return classes[label] if 0 <= label < len(classes) else str(label)

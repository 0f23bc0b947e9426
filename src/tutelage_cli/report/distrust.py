"""The examples of lowest weight: a summary, and a table for data without pictures."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Integer

from tutelage_cli.report import formats
from tutelage_cli.report.content import Examples

SHOWN = 12
HEADER: tuple[str, ...] = ("Example", "Given", "Predicted", "True", "Weight", "Loss")


def summary(examples: Examples) -> str:
    """Count the wrong labels in the tenth of examples that weighs least, ties included."""
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


def least_trusted(
    weights: Float[np.ndarray, "N"], losses: Float[np.ndarray, "N"]
) -> Integer[np.ndarray, "N"]:
    """Examples by weight, lowest first, as ``tutelage inspect --by weight`` orders them.

    Of equal weights the one with the larger loss comes first; a weight that is not a number
    comes before all.
    """
    return np.lexsort((-losses, np.where(np.isnan(weights), -np.inf, weights)))


def rows(examples: Examples, classes: Sequence[str]) -> list[tuple[str, ...]]:
    """The ``SHOWN`` examples of lowest weight, under ``HEADER``; ties: higher loss first."""
    least = least_trusted(examples.weights, examples.losses)[:SHOWN]
    return [row(examples, i, classes) for i in least.tolist()]


def row(examples: Examples, place: int, classes: Sequence[str]) -> tuple[str, ...]:
    """What is known of one example, under ``HEADER``."""
    given, predicted = (int(labels[place]) for labels in (examples.given, examples.predicted))
    return (
        str(examples.ids[place]),
        named(given, classes),
        named(predicted, classes),
        formats.DASH if examples.true is None else named(int(examples.true[place]), classes),
        formats.number(float(examples.weights[place])),
        formats.number(float(examples.losses[place])),
    )


def named(label: int, classes: Sequence[str]) -> str:
    """The name of a label."""
    return classes[label] if 0 <= label < len(classes) else str(label)

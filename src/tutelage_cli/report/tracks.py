"""One quantity over epochs, summarised over the seeds of an arm."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Integer

from tutelage_cli.report.content import Curve


class Track(NamedTuple):
    """Mean, lowest and highest value over seeds after each epoch."""

    epochs: Integer[np.ndarray, "T"]
    mean: Float[np.ndarray, "T"]
    low: Float[np.ndarray, "T"]
    high: Float[np.ndarray, "T"]


def track(
    curves: Iterable[Curve], values: Callable[[Curve], Sequence[float] | None]
) -> Track | None:
    """Summarise one quantity over curves, epoch by epoch.

    An epoch that only some seeds reached is summed up over those; values that are not finite
    are left out.
    """
    found: dict[int, list[float]] = {}
    for curve in curves:
        for epoch, value in zip(curve.epochs, values(curve) or (), strict=False):
            if np.isfinite(value):
                found.setdefault(epoch, []).append(value)
    return over_seeds(found) if found else None


def over_seeds(values: Mapping[int, Sequence[float]]) -> Track:
    """Summarise the values of the seeds at each epoch."""
    columns = [values[epoch] for epoch in sorted(values)]
    return Track(
        np.array(sorted(values)),
        np.array([np.mean(column) for column in columns], dtype=np.float64),
        np.array([min(column) for column in columns], dtype=np.float64),
        np.array([max(column) for column in columns], dtype=np.float64),
    )

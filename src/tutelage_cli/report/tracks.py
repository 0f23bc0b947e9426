"""One quantity over epochs, summarised over the seeds of an arm."""

from collections.abc import Callable, Iterable, Sequence
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
    if not found:
        return None
    columns = [found[epoch] for epoch in sorted(found)]
    return Track(
        np.array(sorted(found)),
        np.array([np.mean(column) for column in columns], dtype=np.float64),
        np.array([min(column) for column in columns], dtype=np.float64),
        np.array([max(column) for column in columns], dtype=np.float64),
    )

"""How numbers are written, the same in every table, caption and terminal."""

import math
from typing import TypeGuard

DASH = "\N{EN DASH}"  # stands for a value that is missing or not finite


def percent(share: float | None) -> str:
    """A share of one as percent with two decimals, without the sign.

    Args:
        share: The share, 0 to 1.

    Returns:
        ``"93.21"``, or a dash.
    """
    return f"{100 * share:.2f}" if _known(share) else DASH


def seconds(duration: float | None) -> str:
    """A duration in seconds; one decimal below a hundred, none from there on.

    Args:
        duration: Seconds.

    Returns:
        ``"41.3"``, ``"1,284"``, or a dash.
    """
    if not _known(duration):
        return DASH
    return f"{duration:.1f}" if duration < 99.95 else f"{duration:,.0f}"


def ratio(times: float | None) -> str:
    """A ratio of durations with two decimals and a multiplication sign.

    Args:
        times: The ratio.

    Returns:
        ``"1.52×"``, or a dash.
    """
    return f"{times:.2f}\N{MULTIPLICATION SIGN}" if _known(times) else DASH


def mebibytes(amount: float | None) -> str:
    """An amount of memory in MiB, whole from ten on.

    Args:
        amount: Bytes.

    Returns:
        ``"1,284"``, ``"7.3"``, or a dash.
    """
    if not _known(amount):
        return DASH
    found = amount / 2**20
    return f"{found:.1f}" if found < 9.95 else f"{found:,.0f}"


def number(value: float | None) -> str:
    """A weight, loss or AUROC: three decimals, or an exponent where those would read zero.

    Args:
        value: The value.

    Returns:
        ``"0.873"``, ``"4.2e-05"``, or a dash.
    """
    if not _known(value):
        return DASH
    small = 0 < abs(value) < 0.0005
    return f"{value:.1e}" if small else f"{value:.3f}"


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)

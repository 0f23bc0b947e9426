"""How numbers are written, the same in every table, caption and terminal."""

import math
from typing import TypeGuard

DASH = "\N{EN DASH}"  # in place of a value that is missing or not finite


def percent(share: float | None) -> str:
    """A share of one as percent with two decimals, without the sign."""
    return f"{100 * share:.2f}" if _known(share) else DASH


def seconds(duration: float | None) -> str:
    """A duration in seconds; one decimal below a hundred, none from there on."""
    if not _known(duration):
        return DASH
    return f"{duration:.1f}" if duration < 99.95 else f"{duration:,.0f}"


def ratio(times: float | None) -> str:
    """A ratio of durations with two decimals and a multiplication sign."""
    return f"{times:.2f}\N{MULTIPLICATION SIGN}" if _known(times) else DASH


def mebibytes(amount: float | None) -> str:
    """An amount of memory in MiB, whole from ten on."""
    if not _known(amount):
        return DASH
    found = amount / 2**20
    return f"{found:.1f}" if found < 9.95 else f"{found:,.0f}"


def number(value: float | None) -> str:
    """A weight, loss or AUROC: three decimals, or an exponent where those would read zero."""
    if not _known(value):
        return DASH
    small = 0 < abs(value) < 0.0005
    return f"{value:.1e}" if small else f"{value:.3f}"


def _known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)

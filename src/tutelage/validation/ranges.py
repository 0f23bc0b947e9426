"""Range checks of numeric settings."""

import math

from tutelage.errors import UsageError


def require_above_zero(name: str, value: float | int) -> None:
    """Raise unless a number is positive and finite."""
    _require(name, value, value > 0, "above 0")


def require_not_negative(name: str, value: float | int) -> None:
    """Raise unless a number is at least 0 and finite."""
    _require(name, value, value >= 0, "0 or above")


def _require(name: str, value: float | int, within: bool, wanted: str) -> None:
    if not math.isfinite(value):
        raise UsageError(f"{name} must be {wanted} and finite, got {value:g}.")
    if not within:
        raise UsageError(f"{name} must be {wanted}, got {value:g}.")


def at_least_one(settings: object, *names: str) -> None:
    """Raise for counts below 1."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}.")


def not_negative(settings: object, *names: str) -> None:
    """Raise for negative or infinite numbers."""
    for name in names:
        value = getattr(settings, name)
        if value is not None:
            require_not_negative(name, value)


def above_zero(settings: object, *names: str) -> None:
    """Raise for numbers that are not positive and finite."""
    for name in names:
        value = getattr(settings, name)
        if value is not None:
            require_above_zero(name, value)


def factor(settings: object, name: str) -> None:
    """Raise for a factor below 1, or infinite."""
    value = getattr(settings, name)
    if value is not None:
        _require(name, value, value >= 1, "1 or above")


def shares(settings: object, name: str) -> None:
    """Raise for shares outside (0, 1]."""
    value = getattr(settings, name)
    if not all(0 < share <= 1 for share in value):
        raise UsageError(f"{name} holds shares in (0, 1], got {value}.")


def parts(settings: object, *names: str) -> None:
    """Raise for numbers outside [0, 1]."""
    for name in names:
        value = getattr(settings, name)
        if not 0 <= value <= 1:
            raise UsageError(f"{name} must lie in 0..1, got {value:g}.")


def between(settings: object, name: str) -> None:
    """Raise for a number outside (0, 1)."""
    value = getattr(settings, name)
    if not 0 < value < 1:
        raise UsageError(f"{name} must lie between 0 and 1, got {value:g}.")

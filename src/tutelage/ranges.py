"""Numbers among settings that must lie in a range: one sentence where one does not."""

import math

from tutelage.errors import UsageError


def at_least_one(settings: object, *names: str) -> None:
    """Refuse counts below 1.

    Args:
        settings: Their holder.
        *names: Its attributes; one that is None is not given.

    Raises:
        UsageError: At the first one below.
    """
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}.")


def not_negative(settings: object, *names: str) -> None:
    """Refuse rates below 0, and infinite ones.

    Args:
        settings: Their holder.
        *names: Its attributes.

    Raises:
        UsageError: At the first one that is neither 0 nor above.
    """
    for name in names:
        value = getattr(settings, name)
        if not 0 <= value < math.inf:
            raise UsageError(f"{name} must be 0 or above, got {value:g}.")


def factor(settings: object, name: str) -> None:
    """Refuse a factor below 1, and an infinite one.

    Args:
        settings: Its holder.
        name: Its attribute; None is not given.

    Raises:
        UsageError: If it is neither 1 nor above.
    """
    value = getattr(settings, name)
    if value is not None and not 1 <= value < math.inf:
        raise UsageError(f"{name} must be 1 or above, got {value:g}.")


def shares(settings: object, name: str) -> None:
    """Refuse shares outside (0, 1].

    Args:
        settings: Their holder.
        name: Its attribute, a tuple.

    Raises:
        UsageError: If one lies outside.
    """
    value = getattr(settings, name)
    if not all(0 < share <= 1 for share in value):
        raise UsageError(f"{name} holds shares in (0, 1], got {value}.")


def parts(settings: object, *names: str) -> None:
    """Refuse rates outside 0..1.

    Args:
        settings: Their holder.
        *names: Its attributes.

    Raises:
        UsageError: At the first one that lies outside.
    """
    for name in names:
        value = getattr(settings, name)
        if not 0 <= value <= 1:
            raise UsageError(f"{name} must lie in 0..1, got {value:g}.")


def between(settings: object, name: str) -> None:
    """Refuse a share outside (0, 1).

    Args:
        settings: Its holder.
        name: Its attribute.

    Raises:
        UsageError: If it lies outside.
    """
    value = getattr(settings, name)
    if not 0 < value < 1:
        raise UsageError(f"{name} must lie between 0 and 1, got {value:g}.")

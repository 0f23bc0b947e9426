"""Which controls a study trains; light, for the command line."""

from collections.abc import Sequence

from tutelage.errors import UsageError, nearest
from tutelage_cli.train.names import ALL, CONTROLS, NONE


def controls_of(asked: Sequence[str]) -> tuple[str, ...]:
    """The controls to train, in the order of ``named.CONTROLS``."""
    allowed = (ALL, NONE, *CONTROLS)
    for name in asked:
        if name not in allowed:
            raise UsageError(f"Unknown control '{name}' in controls. {nearest(name, allowed)}")
    if not asked or (len(asked) > 1 and {ALL, NONE} & set(asked)):
        raise UsageError(
            f"controls is {' '.join(asked) or 'empty'}; allowed: {ALL} or {NONE} alone, or "
            f"some of {', '.join(CONTROLS)}."
        )
    if len(set(asked)) < len(asked):
        raise UsageError(f"controls names one twice: {' '.join(asked)}.")
    return tuple(name for name in CONTROLS if ALL in asked or name in asked)

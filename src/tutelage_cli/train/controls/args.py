"""Which controls a study trains; light, for the command line."""

from collections.abc import Sequence

from tutelage.errors import UsageError, nearest
from tutelage_cli.train.names import ALL, CONTROLS, NONE


def controls_of(names: Sequence[str]) -> tuple[str, ...]:
    """The controls to train, in the order of ``names.CONTROLS``."""
    allowed = (ALL, NONE, *CONTROLS)
    for name in names:
        if name not in allowed:
            raise UsageError(
                f"Unknown control '{name}' in --controls. {nearest(name, allowed)}"
            )
    if not names or (len(names) > 1 and {ALL, NONE} & set(names)):
        raise UsageError(
            f"--controls is {' '.join(names) or 'empty'}; allowed: {ALL} or {NONE} alone, or "
            f"some of {', '.join(CONTROLS)}."
        )
    if len(set(names)) < len(names):
        raise UsageError(f"--controls names one twice: {' '.join(names)}.")
    return tuple(name for name in CONTROLS if ALL in names or name in names)

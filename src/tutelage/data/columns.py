"""Which column of a table holds the images, and which the labels."""

from collections.abc import Sequence

from tutelage.errors import UsageError, nearest


def pick(
    names: Sequence[str], wanted: str | None, guesses: Sequence[str], *, option: str, where: str
) -> str:
    """The wanted column, or the first guess that the table has.

    Args:
        names: The columns that the table has.
        wanted: The column asked for; None to guess.
        guesses: Usual names, tried in order, in any case of letters.
        option: The argument that names the column, for the message.
        where: The table, for the message.

    Returns:
        One of ``names``.

    Raises:
        UsageError: If the table lacks the wanted column, or has none of the guesses.
    """
    if wanted is not None:
        if wanted not in names:
            raise UsageError(
                f"{where} has no column '{wanted}' ({option}). {nearest(wanted, names)}"
            )
        return wanted
    spelled = {name.strip().casefold(): name for name in reversed(names)}
    for guess in guesses:
        if guess in spelled:
            return spelled[guess]
    raise UsageError(
        f"{where} has none of the columns {', '.join(guesses)}; name one with {option}. "
        f"Columns there: {', '.join(names)}."
    )

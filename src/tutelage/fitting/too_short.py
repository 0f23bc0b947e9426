"""Whether a student was trained for too short, by its losses."""

from collections.abc import Sequence

LAST = 1 / 5
"""share of the epochs at the full learning rate that are the last ones, one at least"""
MARGIN = 0.1
"""of what all these epochs lowered a loss by: what the last ones do where training was too
short"""
LEARNT = 0.1
"""of the first epoch's loss: below it, a student has learnt its training set anyway"""


def still_falling(
    losses: Sequence[float], full: int, held_out: Sequence[float] | None = None
) -> str:
    """Say that the loss was still falling when the learning rate was first lowered.

    Later the loss hardly falls, however short training was. It was falling where the last fifth
    of these epochs, one at least, made a tenth or more of what they all lowered the loss by,
    and the loss ends at a tenth of the first epoch's or above. Where losses of held-out
    examples are known, the same holds for them: else the student memorises labels. A single
    epoch shows nothing.

    Args:
        losses: The mean training loss of each epoch, in nats.
        full: The number of epochs with the whole learning rate; fewer than two count as two.
        held_out: The mean loss of held-out examples after each epoch.

    Returns:
        A clause, or an empty string.
    """
    at_full = losses[: max(2, full)]
    last = max(1, int(LAST * len(at_full)))
    if len(at_full) < 2 or losses[-1] < LEARNT * losses[0]:
        return ""
    series = [at_full] if held_out is None else [at_full, held_out[: len(at_full)]]
    if not all(_falls_late(each, last) for each in series):
        return ""
    epochs = f"the last {last} epochs" if last > 1 else "the last epoch"
    return (
        f"fell from {at_full[-1 - last]:.3f} to {at_full[-1]:.3f} in {epochs} at the full "
        "learning rate"
    )


def _falls_late(losses: Sequence[float], last: int) -> bool:
    first, before, end = losses[0], losses[-1 - last], losses[-1]
    return end < first and before - end >= MARGIN * (first - end)


def too_short(*signs: str) -> str:
    """A note on a run of ``fit``, of those signs that are not empty; empty without any."""
    found = "; and ".join(filter(None, signs))
    remedy = "train for more epochs, or with another learning rate"
    return f"perhaps too short: {found}; {remedy}" if found else ""

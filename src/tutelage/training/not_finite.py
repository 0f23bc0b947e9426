"""Why a teacher's gradient is not finite, and how often that may be at the start."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from tutelage.errors import first_few
from tutelage.types import Batch

PATIENCE = 5
"""``TeacherUpdater.patience`` where the user did not choose the signal: the first steps of deep
networks are hard to reverse"""


def reason_of_skip(
    held_out: Batch, batches: Sequence[Batch], params: Mapping[str, Tensor]
) -> str:
    """A sentence about a skipped teacher step; synchronises with the device."""
    for kind, some in (("held-out", [held_out]), ("training", batches)):
        if ids := [number for batch in some for number in _ids(batch)]:
            return (
                f"NaN or infinity in the inputs of {kind} examples with the ids "
                f"{first_few(dict.fromkeys(ids))}: leave them out, or mend them."
            )
    if not all(bool(p.isfinite().all()) for p in params.values()):
        return (
            "The student's parameters are not finite any more: it has diverged (a lower "
            "learning rate may help), or an earlier batch held NaN."
        )
    return "Inputs and the student are finite: lower the teacher's or student's learning rate."


def _ids(batch: Batch) -> list[int]:
    # of the examples whose inputs are not finite
    if not batch.inputs.is_floating_point():
        return []
    wrong = ~batch.inputs.isfinite().flatten(1).all(1)
    return batch.ids[wrong].tolist() if bool(wrong.any()) else []

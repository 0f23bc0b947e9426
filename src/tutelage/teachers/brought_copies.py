"""Copies of examples made by the data reader."""

from tutelage.errors import UsageError
from tutelage.teacher import Teacher
from tutelage.teachers.copies import repeated
from tutelage.types import Batch, Lesson


class BroughtCopies(Teacher):
    """Prepares a row for each copy of inputs [B, k, ...].

    For copies that are cut from an image as it is stored, in the processes that read it (see
    ``papers.data.crops``). Rows come copy by copy, as those of ``Copies``: the first copy of
    all examples, then the second. Where the first is the example as it is, ``WorstCaseSoft``
    may stand beside it.
    """

    def prepare(self, batch: Batch) -> Lesson:
        """Flatten the copies into rows."""
        if batch.inputs.ndim < 2:
            raise UsageError(
                f"inputs are of shape {tuple(batch.inputs.shape)}; give [B, k, ...], k copies "
                "of each example."
            )
        copies = batch.inputs.transpose(0, 1).flatten(0, 1)
        return repeated(batch, batch.inputs.shape[1])._replace(inputs=copies)

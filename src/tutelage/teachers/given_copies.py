"""Copies of examples made by the data reader."""

from tutelage.errors import UsageError
from tutelage.teacher import Teacher
from tutelage.teachers.copies import repeated
from tutelage.types import Batch, PreparedBatch


class GivenCopies(Teacher):
    """Prepares a row for each copy of inputs [B, k, ...].

    For copies that the data loader makes, such as crops of an image. Rows are ordered copy by
    copy, as in ``Copies``: the first copy of all examples, then the second. If the first copy
    is the unchanged example, it can be combined with ``WorstCaseSoft``.
    """

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Flatten the copies into rows."""
        if batch.inputs.ndim < 2:
            raise UsageError(
                f"inputs are of shape {tuple(batch.inputs.shape)}; give [B, k, ...], k copies "
                "of each example."
            )
        copies = batch.inputs.transpose(0, 1).flatten(0, 1)
        return repeated(batch, batch.inputs.shape[1])._replace(inputs=copies)

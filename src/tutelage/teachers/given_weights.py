"""Given weights of examples."""

import torch
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage.teacher import Teacher
from tutelage.types import Observation, PreparedBatch
from tutelage.validation.shapes import require_tensors


class GivenWeights(Teacher):
    """A given weight for each example; nothing is learned.

    Args:
        ids: The examples, N different whole numbers, 0 and above.
        weights: Theirs [N].

    Raises:
        UsageError: If an id is negative or comes twice, a weight is negative or not finite in
            single precision, or the two differ in length.
    """

    constant_buffers = ("ids", "weights")

    def __init__(self, ids: Tensor, weights: Tensor) -> None:
        super().__init__()
        require_tensors("GivenWeights", ids=ids, weights=weights)
        if ids.shape != weights.shape or ids.ndim != 1 or not len(ids):
            raise UsageError(
                f"{len(weights)} weights for {len(ids)} ids; give one for each id, 0 and above."
            )
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise UsageError(f"ids are {ids.dtype}; give whole numbers, such as torch.int64.")
        order = ids.long().argsort()
        known, single = ids.long()[order], weights.float()[order]
        twice = known[1:][known[1:] == known[:-1]]
        if int(known[0]) < 0:
            raise UsageError(f"ids {_named(known[known < 0])} are negative; give 0 and above.")
        if len(twice):
            raise UsageError(f"ids {_named(twice)} come twice; give one weight for each.")
        wrong = ~((single >= 0) & single.isfinite())
        if bool(wrong.any()):
            worst = float(weights[order][wrong][0])
            raise UsageError(
                f"a weight is {worst:g}; allowed: 0 and above, finite in single precision. It "
                f"is that of id {int(known[wrong][0])}."
            )
        self.ids: Tensor
        self.weights: Tensor
        self.register_buffer("ids", known)
        self.register_buffer("weights", single)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the interface
        """Look up weights [L] by id."""
        places = torch.searchsorted(self.ids, prepared.ids).clamp(max=len(self.ids) - 1)
        lacking = self.ids[places] != prepared.ids
        if bool(lacking.any()):
            raise UsageError(
                f"no weight is given for the examples with ids {_named(prepared.ids[lacking])}:"
                " give one for each that the student is trained on."
            )
        return self.weights[places]


def _named(ids: Tensor) -> str:
    return first_few(ids.unique().tolist())

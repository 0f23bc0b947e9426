"""Stored copies of examples, optionally with labels of their own."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tutelage.losses.targets import one_hot
from tutelage.teacher import Teacher
from tutelage.teachers.copies import repeated
from tutelage.teachers.worst_case_soft import class_probabilities
from tutelage.types import Batch, PreparedBatch
from tutelage.validation.shapes import require_tensors


class StoredCopies(Teacher):
    """Prepares every example and its K stored copies.

    Rows come copy by copy, as those of ``Copies`` do. Where copies have soft labels, the class
    ids of the originals become such, too.

    Source: Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected
    Loss, algorithms 1 and 2.

    Args:
        inputs: The copies, [N, K, ...], of the shape and any type of the examples.
        ids: Of their examples, int64 [N].
        targets: Labels of the copies: ids or numbers [N, K], or soft labels [N, K, C]; None for
            those of their examples.

    Raises:
        UsageError: If one of them is no tensor.
        ValueError: If lengths differ, or two examples have one id.
    """

    def __init__(self, inputs: Tensor, ids: Tensor, targets: Tensor | None = None) -> None:
        super().__init__()
        require_tensors("StoredCopies", inputs=inputs, ids=ids, targets=targets)
        if len(inputs) != len(ids) or (
            targets is not None and targets.shape[:2] != inputs.shape[:2]
        ):
            labels = "none" if targets is None else tuple(targets.shape)
            raise ValueError(
                f"copies have shape {tuple(inputs.shape)}, labels {labels}, and there are "
                f"{len(ids)} ids: give [N, K, ...], [N, K, ...] and [N]."
            )
        places = {example: row for row, example in enumerate(ids.tolist())}
        if len(places) < len(ids):
            raise ValueError(f"{len(ids) - len(places)} ids of copies come more than once.")
        self.inputs = inputs
        self.targets = targets
        self.k = 1 + inputs.shape[1]
        self._places = places

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Look up the copies."""
        if missing := [i for i in batch.ids.tolist() if i not in self._places]:
            raise ValueError(
                f"{len(missing)} examples of the batch have no stored copies, among them the "
                f"one with id {missing[0]}: store copies of all that are trained on."
            )
        if self.inputs.shape[2:] != batch.inputs.shape[1:]:
            raise ValueError(
                f"copies have shape {tuple(self.inputs.shape[2:])} but the examples "
                f"{tuple(batch.inputs.shape[1:])}: store them as they are shown."
            )
        rows = torch.tensor([self._places[i] for i in batch.ids.tolist()])
        inputs = torch.cat([batch.inputs, _by_copy(self.inputs, rows, batch.inputs)])
        prepared = repeated(batch, self.k)._replace(inputs=inputs)
        if self.targets is None:
            return prepared
        own, stored = batch.targets, self.targets
        if stored.ndim > 2 and own.ndim == 1:
            own = one_hot(own, stored.shape[2], type(self).__name__).to(stored.dtype)
        if own.shape[1:] != stored.shape[2:]:
            raise ValueError(
                f"copies have labels of shape {tuple(stored.shape[2:])} but the examples "
                f"{tuple(own.shape[1:])}: store labels as the examples' are."
            )
        if own.is_floating_point() or stored.is_floating_point():
            kind = torch.promote_types(own.dtype, stored.dtype)
            own = own.to(torch.promote_types(kind, torch.float32))
        return prepared._replace(targets=torch.cat([own, _by_copy(stored, rows, own)]))


def _by_copy(stored: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    return stored[rows].transpose(0, 1).flatten(0, 1).to(like.device, like.dtype)


@torch.no_grad()
def predicted(
    model: nn.Module,
    inputs: Tensor,
    *,
    predict: Callable[[Tensor], Tensor] = class_probabilities,
    at_once: int = 256,
) -> Tensor:
    """Soft labels of examples, or of their copies, by a trained model.

    Args:
        model: Run in evaluation mode, in which it is left.
        inputs: [N, ...]; integers are given to it as int64. Copies are given flattened.
        predict: From its outputs to labels.
        at_once: Rows in one pass.

    Returns:
        [N, ...], on the CPU.

    Note: raises ``UsageError`` where the inputs are no tensor.
    """
    require_tensors("predicted", inputs=inputs)
    model.eval()
    device = next(model.parameters()).device
    rows = [part.to(device) for part in inputs.split(at_once)]
    parts = [x if x.is_floating_point() else x.long() for x in rows]
    return torch.cat([predict(model(x)).cpu() for x in parts])

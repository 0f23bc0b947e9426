"""The maximal expected loss with the student's predictions as targets of copies."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tutelage.losses.objectives import Normalise, Objective, cross_entropy, losses_of
from tutelage.precision import upcast
from tutelage.teacher import Teacher
from tutelage.teachers.group_reductions import group_first, group_softmax
from tutelage.teachers.worst_case import require_positive, require_share
from tutelage.types import Observation, PreparedBatch
from tutelage.validation.ranges import require_above_zero
from tutelage.validation.shapes import require_tensors

TargetRule = Callable[[PreparedBatch, Tensor], Tensor]
"""from the prepared batch and what the student predicts of each row's original, [L, C]
probabilities or [L] numbers, to what the row shall give, of the same shape"""


def own_prediction(prepared: PreparedBatch, predicted: Tensor) -> Tensor:  # noqa: ARG001 - the interface
    """The student's prediction of the original as the copies' target."""
    return predicted


def class_probabilities(logits: Tensor) -> Tensor:
    """The probabilities of a classifier."""
    return upcast(logits).softmax(1)


@dataclass(frozen=True)
class LabelPreservingTarget:
    """The student's prediction of the original as target, unless the copy's label changed.

    It does where a model that labelled copies and originals gives them another class (the
    highest probability), or numbers that differ by more than ``tolerance``. Then its label of
    the copy, which the prepared batch has, is the target.

    Source: Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected
    Loss, section 3.3; for numbers section 4.2.
    """

    originals: Tensor
    """what the model gives for the original of each example: [N, C], or [N] numbers"""
    ids: Tensor
    """of the examples, int64 [N]"""
    tolerance: float = 0.5
    """between numbers"""

    def __post_init__(self) -> None:
        """Check that tensors came; see the class."""
        require_tensors("LabelPreservingTarget", originals=self.originals, ids=self.ids)

    def __call__(self, prepared: PreparedBatch, predicted: Tensor) -> Tensor:
        """The target of each row."""
        if prepared.targets.shape != predicted.shape:
            raise ValueError(
                f"targets have shape {tuple(prepared.targets.shape)} but predictions "
                f"{tuple(predicted.shape)}: give copies the labels that a model predicts."
            )
        order = self.ids.argsort()
        known, wanted = self.ids[order].contiguous(), prepared.ids.to(self.ids.device)
        place = torch.searchsorted(known, wanted).clamp(max=len(known) - 1)
        if not torch.equal(known[place], wanted):
            missing = int(wanted[known[place] != wanted][0])
            raise ValueError(f"there is no prediction of the example with id {missing}.")
        before = self.originals[order[place]].to(predicted.device, predicted.dtype)
        labels = prepared.targets.to(predicted.dtype)
        if predicted.ndim == 1:
            return torch.where((labels - before).abs() > self.tolerance, labels, predicted)
        changed = labels.argmax(1) != before.argmax(1)
        return torch.where(changed[:, None], labels, predicted)


class WorstCaseSoft(Teacher):
    """The loss of x, and of its copies z against what the student predicts of x (MMEL-S).

    ``l(f(x), y_x) + weight (sum_z P_z l(f(z), t_z) - temperature KL(P || uniform))`` with
    ``P = softmax_z(l(f(z), t_z) / temperature)`` over the copies and ``t_z = f(x)``. As in
    ``WorstCase``, P has no part in the student's gradient. The first row of each example is x.

    Source: Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected
    Loss, eq. 8 and 9. That the target f(x) has no part in the gradient is our reading.

    Args:
        temperature: ``lambda_P``, in the unit of the losses.
        weight: ``lambda_T``, of all copies of an example together.
        rule: Gives ``t_z``: ``own_prediction``, or an ``LabelPreservingTarget``.
        objective: l for copies, which takes what ``predict`` gives as targets.
        predict: From logits to a prediction.
        detach_target: Whether ``t_z`` has no part in the student's gradient. A hypergradient
            then leaves out what changes ``t_z``, too.
        drop_below: As that of ``WorstCase``.

    Raises:
        ValueError: If temperature or weight is not positive, or the share outside 0..1.
    """

    normalise: Normalise = None
    attached = False  # of its weights; its losses are differentiated

    def __init__(
        self,
        temperature: float,
        weight: float,
        *,
        rule: TargetRule = own_prediction,
        objective: Objective = cross_entropy,
        predict: Callable[[Tensor], Tensor] = class_probabilities,
        detach_target: bool = True,
        drop_below: float = 0.0,
    ) -> None:
        super().__init__()
        require_positive("temperature", temperature)
        require_above_zero("weight", weight)
        require_share(drop_below)
        self.drop_below = drop_below
        self.temperature = temperature
        self.weight = weight
        self.rule = rule
        self.objective = objective
        self.predict = predict
        self.detach_target = detach_target

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Weights [L] of originals and copies."""
        group = prepared.group
        first = group_first(group)
        losses = self.row_losses(prepared, observation) / self.temperature
        shares = group_softmax(losses.index_fill(0, first, -torch.inf), group)
        weights = self.weight * shares.index_fill(0, first, 0)
        return weights.index_fill(0, first, 1) * (len(group) / max(len(first), 1))

    def row_losses(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Losses [L]."""
        first = group_first(prepared.group)
        logits = upcast(observation.logits)
        predicted = self.predict(logits)[first][prepared.group]
        targets = self.rule(prepared, predicted.detach() if self.detach_target else predicted)
        copies = prepared._replace(targets=targets, aux=None)
        losses = losses_of(self.objective, logits, copies)
        own = observation.losses.to(losses.dtype)
        return losses.index_copy(0, first, own[first])

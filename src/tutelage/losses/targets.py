"""Examples without a label, soft labels and label checks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tutelage.distributed.groups import is_batch_distributed
from tutelage.errors import UnknownLabelError, UsageError
from tutelage.losses.objectives import cross_entropy, logits_of
from tutelage.types import Batch, Observation, Outputs, PreparedBatch
from tutelage.validation.shapes import described, is_none_of
from tutelage.validation.shapes import require_classes as require_classes

_ROUNDING = 2e-2
"""by how much soft labels in half precision may miss a sum of one"""
Rows = TypeVar("Rows", bound=Batch | PreparedBatch)


@dataclass(frozen=True)
class CrossEntropy:
    """Cross entropy of every example in nats, with ignored labels.

    An example with an ignored label has loss 0 and, whatever its teacher says, weight 0: it
    counts in no mean and gives no gradient. A batch without a label does not change the
    student. Teachers do not get such examples. One that mixes inputs of examples
    (``Blending``, ``Mixup``) needs labels for all.
    """

    ignored: tuple[int, ...] = ()
    """labels that mean no label, such as 255 and -1"""

    def __call__(self, logits: Float[Tensor, "B C"], targets: Tensor) -> Tensor:
        """One loss per example."""
        if targets.is_floating_point():
            return cross_entropy(logits, targets)
        known = self.labelled(targets)
        return cross_entropy(logits, targets.where(known, 0)).where(known, 0)

    def counts(self, targets: Tensor) -> Tensor | None:
        """Which examples count in a mean of losses."""
        return None if targets.is_floating_point() else self.labelled(targets)

    def labelled(self, targets: Int[Tensor, "B"]) -> Bool[Tensor, "B"]:
        """Which examples have a label."""
        return is_none_of(targets, self.ignored)


def with_classes(rows: Rows, counts: Tensor | None) -> Rows:
    """Replace ignored labels by class 0, a valid index."""
    if counts is None or rows.targets.ndim > 1 or rows.targets.is_floating_point():
        return rows
    return rows._replace(targets=rows.targets.where(counts > 0, 0))


Hook = Callable[[PreparedBatch, Observation], Tensor]


def apply_to_labelled(
    hook: Hook, prepared: PreparedBatch, observation: Observation, counts: Tensor | None
) -> Tensor:
    """Call a teacher's hook on the labelled rows only; 0 for the others.

    The teacher sees the labelled rows alone, so that the others are in no mean, rank or draw
    of its own. Where some may be without a label, this waits for a GPU.
    """
    rows = _labelled(counts)
    if counts is None or rows is None:
        return hook(prepared, observation)
    # where it is distributed, the other processes' rows need this process, too
    if not len(rows) and not is_batch_distributed():
        return observation.losses  # all 0, on the student's graph where a teacher gives losses
    found = hook(*_only(rows, prepared, observation)).reshape(len(rows))
    return found.new_zeros(len(counts)).index_copy(0, rows, found)


def apply_to_labelled_examples(
    hook: Hook, prepared: PreparedBatch, observation: Observation, counts: Tensor | None
) -> Tensor:
    """The same for a hook with one output for each example of the batch."""
    rows = _labelled(counts)
    if rows is None:
        return hook(prepared, observation)
    examples = int(prepared.group.max()) + 1
    if not len(rows):
        return observation.losses.new_zeros(examples)
    found = hook(*_only(rows, prepared, observation))
    return found.new_zeros(examples).index_copy(0, prepared.group[rows].unique(), found)


def counted_rows(
    prepared: PreparedBatch, observation: Observation, counts: Tensor | None
) -> tuple[PreparedBatch, Observation]:
    """The labelled rows of a prepared batch and of its observation."""
    rows = _labelled(counts)
    return (prepared, observation) if rows is None else _only(rows, prepared, observation)


def _labelled(counts: Tensor | None) -> Tensor | None:
    # the rows that have a label; None where all have one
    if counts is None:
        return None
    rows = (counts > 0).nonzero().squeeze(1)
    return None if len(rows) == len(counts) else rows


def _only(
    rows: Tensor, prepared: PreparedBatch, observation: Observation
) -> tuple[PreparedBatch, Observation]:
    examples, group = prepared.group[rows].unique(return_inverse=True)
    log_prob = None if prepared.log_prob is None else prepared.log_prob[examples]
    visible = prepared._replace(
        inputs=prepared.inputs[rows],
        targets=prepared.targets[rows],
        ids=prepared.ids[rows],
        group=group,
        log_prob=log_prob,
        aux=None if prepared.aux is None else prepared.aux[rows],
    )
    revealed = observation._replace(
        losses=observation.losses[rows],
        logits=observation.logits[rows],
        features={name: feature[rows] for name, feature in observation.features.items()},
        alignments=None if observation.alignments is None else observation.alignments[rows],
    )
    return visible, revealed


def correct_predictions(
    outputs: Outputs, targets: Tensor, counts: Tensor | None = None
) -> Tensor:
    """Which labelled examples a student classifies correctly."""
    logits = logits_of(outputs)
    labels = targets.argmax(1) if targets.ndim == 2 else targets
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise UsageError(
            f"an accuracy needs logits [L, C] and class ids [L]; the logits are "
            f"{described(logits)}, the targets {described(targets)}."
        )
    right = logits.argmax(1) == labels
    return right if counts is None else right[counts > 0]


def require_distributions(targets: Tensor, objective: object) -> None:
    """Raise if soft labels of cross entropy do not sum to 1; synchronises the device."""
    mixes = objective is cross_entropy or isinstance(objective, CrossEntropy)
    if not mixes or not targets.is_floating_point():
        return
    sums = targets.double().sum(1)
    wrong = ~((sums - 1).abs() <= _ROUNDING) | (targets < 0).any(1)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise UsageError(
            f"the soft labels of row {row} of the batch sum to {float(sums[row]):g}; allowed: "
            "probabilities, which sum to 1. For several labels of one example take "
            "objectives.binary_cross_entropy."
        )


def one_hot(targets: Tensor, classes: int, owner: str) -> Tensor:
    """One-hot rows of class ids.

    Note: class ids that are none are a ``UsageError`` on the CPU.
    """
    if targets.device.type == "cpu":
        require_classes_of(targets, classes, owner)
    return F.one_hot(targets.long(), classes)


def require_classes_of(targets: Tensor, classes: int, owner: str) -> None:
    """Raise if a label is not one of a teacher's C classes."""
    if targets.is_floating_point() or targets.ndim != 1:
        raise UsageError(f"{owner} takes class ids [L], got {described(targets)}.")
    wrong = (targets < 0) | (targets >= classes)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        if int(targets[row]) < 0:
            raise UnknownLabelError(
                f"row {row} of the batch has label {int(targets[row])}, which is no class: "
                f"{owner} reads the labels of all examples, also of those that the objective "
                f"ignores, and knows the classes 0..{classes - 1}. Leave examples without a "
                "label out."
            )
        raise UnknownLabelError(
            f"row {row} of the batch has label {int(targets[row])}, but {owner} knows the "
            f"classes 0..{classes - 1}. Make it for all classes; leave examples without a "
            "label out."
        )

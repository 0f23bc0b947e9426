"""Objectives: logits and targets to one loss per example.

An objective may have a method ``counts(targets) -> Tensor [L]``: how many labels each row has.
Rows with 0 are in no mean and give no gradient; where others have more than one, as sequences
have tokens, a mean over rows is one over labels. Without it every row counts 1, but for the
``ignore_index`` of torch's own losses.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.losses.reduction import Normalise as Normalise
from tutelage.losses.reduction import counts_of
from tutelage.losses.reduction import nonzero as nonzero
from tutelage.losses.reduction import weighted_loss as weighted_loss
from tutelage.precision import upcast
from tutelage.types import Batch, Outputs, PreparedBatch
from tutelage.validation.shapes import (
    class_targets,
    described,
    require_classes,
    require_losses,
    require_rows,
    require_targets,
)

_NO_LABEL = -(2**31)
"""in place of torch's -100, which would count as an example of loss 0"""
Objective = Callable[..., Tensor]
"""The student's outputs and targets to losses [L], such as ``cross_entropy``; where a prepared
batch has auxiliary targets, they are a third argument, see ``Auxiliary``."""


def cross_entropy(logits: Float[Tensor, "B C"], targets: Tensor) -> Float[Tensor, "B"]:
    """Cross entropy of every example, in nats.

    Args:
        logits: Unnormalised log-probabilities.
        targets: Class ids [B], or soft labels [B, C].

    Returns:
        One loss per example.
    """
    logits = upcast(logits)
    targets = class_targets(logits, targets, "cross_entropy")
    return F.cross_entropy(logits, targets, reduction="none", ignore_index=_NO_LABEL)


def expected_error(logits: Float[Tensor, "B C"], targets: Tensor) -> Float[Tensor, "B"]:
    """``1 - p_y`` of every example, a differentiable error rate.

    Args:
        logits: Unnormalised log-probabilities.
        targets: Class ids [B], or soft labels [B, C].

    Returns:
        One number per example, in 0..1: the chance that an answer drawn from the student's
        probabilities is wrong.

    Source: Wu et al. 2018, Learning to Teach with Dynamic Loss Functions; an option of Fan et
    al. 2021, Learning to Reweight with Deep Interactions, section 3.
    """
    p = upcast(logits).softmax(1)
    targets = class_targets(p, targets, "expected_error")
    if targets.ndim == 2:
        return 1 - (p * targets).sum(1)
    return 1 - p.gather(1, targets[:, None]).squeeze(1)


def squared_error(outputs: Tensor, targets: Float[Tensor, "B *n"]) -> Float[Tensor, "B"]:
    """``(f(x) - y)^2`` of every example, averaged over its outputs.

    Args:
        outputs: [B, 1], or [B]; [B, n] for n numbers of an example.
        targets: Numbers, [B] or [B, 1]; or [B, n].

    Returns:
        One loss per example.

    Raises:
        UsageError: If the two do not fit, which might broadcast.
    """
    if outputs.shape != targets.shape and {outputs.shape[1:], targets.shape[1:]} != {(), (1,)}:
        raise UsageError(
            f"squared_error takes as many numbers as it is to predict; the outputs are "
            f"{described(outputs)}, the targets are {described(targets)}."
        )
    off = upcast(outputs).reshape(targets.shape) - targets
    return off.square().reshape(len(targets), -1).mean(1)


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Float[Tensor, "B"]:
    """Mean binary cross entropy over C attributes of every example, in nats.

    Args:
        logits: One log-odds per attribute [B, C].
        targets: Whether each attribute is there, in 0..1, of the same shape.

    Returns:
        One loss per example.

    Raises:
        UsageError: If the two differ in shape.
    """
    if logits.shape != targets.shape or not logits.ndim:
        raise UsageError(
            f"binary_cross_entropy takes a target for each log-odds; the logits are "
            f"{described(logits)}, the targets {described(targets)}."
        )
    logits = upcast(logits)
    found = F.binary_cross_entropy_with_logits(
        logits, targets.to(logits.dtype), reduction="none"
    )
    return found.reshape(len(found), -1).mean(1)


def is_row_by_row(objective: Objective) -> bool:
    """Whether an objective is known to treat rows independently."""
    return objective in (cross_entropy, expected_error, squared_error, binary_cross_entropy)


@dataclass(frozen=True)
class TokenCrossEntropy:
    """Mean cross entropy over the tokens of every sequence, in nats, without padding.

    A sequence without a token counts in no mean over sequences.

    Source: Szegedy et al. 2016, for label smoothing.
    """

    smoothing: float = 0.0
    """share of a target's mass that is spread over all tokens, in 0..1"""
    ignored: int = -100
    """the target that is no token"""

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per sequence."""
        if logits.ndim != 3 or logits.shape[:2] != targets.shape:
            raise ValueError(
                f"logits have shape {tuple(logits.shape)} but targets {tuple(targets.shape)}: "
                "give logits [B, T, V] for tokens [B, T]."
            )
        found = F.cross_entropy(
            upcast(logits).transpose(1, 2),
            targets.long(),
            ignore_index=self.ignored,
            reduction="none",
            label_smoothing=self.smoothing,
        )
        return found.sum(1) / (targets != self.ignored).sum(1).clamp(min=1)

    def counts(self, targets: Tensor) -> Tensor:
        """Which sequences have a token."""
        return (targets != self.ignored).flatten(1).any(1)


@dataclass(frozen=True)
class Auxiliary:
    """``objective(logits, targets) + mean_d (t^_d - t_d)^2`` for auxiliary targets t.

    For a student that gives a tuple (logits, t^) and a teacher that prepares auxiliary targets
    t, [L, ...] as t^. Without them, as on held-out examples, the objective alone.

    Source: Raghu et al. 2021, Teaching with Commentaries, appendix A.
    """

    objective: Callable[[Tensor, Tensor], Tensor]

    def __call__(
        self, outputs: tuple[Tensor, Tensor], targets: Tensor, aux: Tensor | None = None
    ) -> Tensor:
        """One loss per example."""
        logits, second = outputs
        losses = self.objective(logits, targets)
        if aux is None:
            return losses
        if second.shape != aux.shape:
            raise ValueError(
                f"The student's second output has shape {tuple(second.shape)} but the "
                f"auxiliary targets {tuple(aux.shape)}: give its second head as many units."
            )
        off = second.to(losses.dtype) - aux.to(losses.dtype)  # half under autocast
        return losses + off.square().flatten(1).mean(1)

    def counts(self, targets: Tensor) -> Tensor | None:
        """The objective's own counts."""
        return counts_of(self.objective, targets)


def logits_of(outputs: Outputs) -> Tensor:
    """The logits in a student's output."""
    return outputs if isinstance(outputs, Tensor) else outputs[0]


def losses_of(objective: Objective, outputs: Outputs, rows: PreparedBatch | Batch) -> Tensor:
    """The loss of every row [L], 0 for rows that do not count.

    Every objective and metric is evaluated here, with auxiliary targets where rows have
    them. Rows that differ in number, losses other than one number for each row, auxiliary
    targets without a prediction, and on the CPU targets that are not finite are a
    ``UsageError``; what the objective itself raises goes on.
    """
    require_rows("the batch", rows)
    aux = rows.aux if isinstance(rows, PreparedBatch) else None
    if aux is not None and isinstance(outputs, Tensor):
        raise UsageError(
            "The teacher gives auxiliary targets, but the student predicts nothing beside its "
            "logits: let it give a tuple, and train it with objectives.Auxiliary."
        )
    arguments = (rows.targets,) if aux is None else (rows.targets, aux)
    counts = counts_of(objective, rows.targets)
    try:
        found = objective(outputs, *arguments)
    except (IndexError, RuntimeError):  # torch's own do not say which row; a GPU raises none
        _require_classes(outputs, rows.targets, counts)
        raise
    losses = require_losses(found, objective, outputs, rows)
    if counts is not None:
        losses = losses.where(counts > 0, 0)
    if rows.targets.device.type == "cpu":
        require_targets(rows, losses, objective, known=counts is not None)
    return losses


def _require_classes(outputs: Outputs, targets: Tensor, counts: Tensor | None) -> None:
    logits = logits_of(outputs)
    if targets.is_floating_point() or logits.ndim != targets.ndim + 1:
        return
    known = targets.clamp(min=0) if targets.ndim > 1 else targets  # padding is negative
    if counts is not None and targets.ndim == 1:
        known = targets.where(counts > 0, 0)
    require_classes(known, logits.shape[-1])

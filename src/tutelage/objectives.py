"""From logits to one loss per example, and from weighted losses to one number."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.records import Lesson, Outputs

Normalise = Literal["mean", "group"] | None
_NO_LABEL = -(2**31)
"""in place of torch's -100, which would count as an example of loss 0"""
Objective = Callable[..., Tensor]
"""The student's outputs and targets to losses [L], such as ``cross_entropy``; where a lesson
has auxiliary targets, they are a third argument, see ``Auxiliary``."""


def cross_entropy(logits: Float[Tensor, "B C"], targets: Tensor) -> Float[Tensor, "B"]:
    """Cross entropy of every example, in nats.

    Args:
        logits: Unnormalised log-probabilities.
        targets: Class ids [B], or soft labels [B, C].

    Returns:
        One loss per example.
    """
    return F.cross_entropy(logits, targets, reduction="none", ignore_index=_NO_LABEL)


def expected_error(logits: Float[Tensor, "B C"], targets: Tensor) -> Float[Tensor, "B"]:
    """``1 - p_y`` of every example: one less the expected accuracy, which is differentiable.

    Args:
        logits: Unnormalised log-probabilities.
        targets: Class ids [B], or soft labels [B, C].

    Returns:
        One number per example, in 0..1: the chance that an answer drawn from the student's
        probabilities is wrong.

    Source: Wu et al. 2018, Learning to Teach with Dynamic Loss Functions; an option of Fan et
    al. 2021, Learning to Reweight with Deep Interactions, section 3.
    """
    p = logits.softmax(1)
    if targets.ndim == 2:
        return 1 - (p * targets).sum(1)
    return 1 - p.gather(1, targets[:, None]).squeeze(1)


def squared_error(outputs: Tensor, targets: Float[Tensor, "B"]) -> Float[Tensor, "B"]:
    """``(f(x) - y)^2`` of every example: the loss of a regression.

    Args:
        outputs: [B, 1], or [B].
        targets: Numbers.

    Returns:
        One loss per example.
    """
    return (outputs.reshape(targets.shape) - targets.to(outputs.dtype)).square()


def binary_cross_entropy(
    logits: Float[Tensor, "B C"], targets: Float[Tensor, "B C"]
) -> Float[Tensor, "B"]:
    """Mean binary cross entropy over C attributes of every example, in nats.

    Args:
        logits: One log-odds per attribute.
        targets: Whether each attribute is there, in 0..1.

    Returns:
        One loss per example.
    """
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(1)


def is_row_by_row(objective: Objective) -> bool:
    """Whether an objective is known to look at one row at a time.

    Args:
        objective: Any objective.

    Returns:
        True for the functions of this module; False: it is not known.
    """
    return objective in (cross_entropy, expected_error, squared_error, binary_cross_entropy)


@dataclass(frozen=True)
class TokenCrossEntropy:
    """Mean cross entropy over the tokens of every sequence, in nats; padding never counts.

    Source: Szegedy et al. 2016, for label smoothing.
    """

    smoothing: float = 0.0
    """share of a target's mass that is spread over all tokens, in 0..1"""
    ignored: int = -100
    """the target that is no token"""

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per sequence.

        Args:
            logits: [B, T, V].
            targets: Token ids, int64 [B, T].

        Returns:
            [B]; 0 for a sequence without a token.

        Raises:
            ValueError: If the two do not match.
        """
        if logits.ndim != 3 or logits.shape[:2] != targets.shape:
            raise ValueError(
                f"logits have shape {tuple(logits.shape)} but targets {tuple(targets.shape)}: "
                "give logits [B, T, V] for tokens [B, T]."
            )
        found = F.cross_entropy(
            logits.transpose(1, 2),
            targets,
            ignore_index=self.ignored,
            reduction="none",
            label_smoothing=self.smoothing,
        )
        return found.sum(1) / (targets != self.ignored).sum(1).clamp(min=1)


@dataclass(frozen=True)
class Auxiliary:
    """``objective(logits, targets) + mean_d (t^_d - t_d)^2``: a second output is taught, too.

    For a student that gives a tuple (logits, t^) and a teacher whose lessons have auxiliary
    targets t, [L, ...] as t^. Without them, as on held-out examples, the objective alone.

    Source: Raghu et al. 2021, Teaching with Commentaries, appendix A.
    """

    objective: Callable[[Tensor, Tensor], Tensor]

    def __call__(
        self, outputs: tuple[Tensor, Tensor], targets: Tensor, aux: Tensor | None = None
    ) -> Tensor:
        """One loss per example.

        Args:
            outputs: Logits, and what the student makes of the auxiliary targets.
            targets: As the objective takes them.
            aux: Auxiliary targets; None leaves their part out.

        Returns:
            [L].

        Raises:
            ValueError: If the second output and ``aux`` differ in shape, which would broadcast.
        """
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


def logits_of(outputs: Outputs) -> Tensor:
    """The logits among what a student gives.

    Args:
        outputs: Logits, or a tuple that begins with them.

    Returns:
        [L, C].
    """
    return outputs if isinstance(outputs, Tensor) else outputs[0]


def losses_of(objective: Objective, outputs: Outputs, lesson: Lesson) -> Tensor:
    """The loss of every row of a lesson, auxiliary targets included where it has them.

    Args:
        objective: From outputs and targets, and auxiliary targets, to losses.
        outputs: What the student gives.
        lesson: What it saw.

    Returns:
        [L].

    Raises:
        UsageError: If the lesson has auxiliary targets, but the student only logits.
    """
    if lesson.aux is None:
        return objective(outputs, lesson.targets)
    if isinstance(outputs, Tensor):
        raise UsageError(
            "The teacher gives auxiliary targets, but the student predicts nothing beside its "
            "logits: let it give a tuple, and train it with objectives.Auxiliary."
        )
    return objective(outputs, lesson.targets, lesson.aux)


def weighted_loss(
    losses: Float[Tensor, "L"],
    weights: Tensor,
    group: Int[Tensor, "L"],
    normalise: Normalise,
    total: Callable[[Tensor], Tensor] = lambda x: x,
) -> Float[Tensor, ""]:
    """Reduce per-example losses to the number that the student descends.

    The one rule for weights, in loss, log and hypergradient alike. It is linear in ``losses``:

    * ``"mean"``: ``sum_i w_i l_i / sum_i w_i`` (weights rescaled to mean 1 over the batch);
    * ``"group"``: the same within the copies of each example, then the mean over examples;
    * ``None``: ``mean_i w_i l_i``.

    A batch (or group) whose weights are all zero gives 0 and zero gradients, never NaN. Sums
    are taken in float32 or better.

    Args:
        losses: One loss per row of the lesson.
        weights: Non-negative, [L] or [L, 1].
        group: The example that each row came from, 0..B-1.
        normalise: The rule.
        total: The sum of a number over all processes, where several have rows of one batch.

    Returns:
        A scalar: this process's share, the shares of all adding up to the loss of all rows.

    Raises:
        ValueError: If ``weights`` has another shape, which would broadcast.
    """
    if weights.shape not in (losses.shape, (*losses.shape, 1)):
        raise ValueError(
            f"weights have shape {tuple(weights.shape)} but losses {tuple(losses.shape)}: "
            "return one weight per row of the lesson."
        )
    losses = losses.to(torch.promote_types(losses.dtype, torch.float32))
    weights = weights.reshape(losses.shape).to(losses.dtype)
    if normalise is None:
        return (weights * losses).sum() / nonzero(total(losses.new_full((), len(losses))))
    if normalise == "mean":
        return (weights * losses).sum() / nonzero(total(weights.sum()))
    examples = int(group.max()) + 1 if len(group) else 0
    empty = losses.new_zeros(examples)
    totals = nonzero(empty.index_add(0, group, weights))
    means = empty.index_add(0, group, weights * losses) / totals
    return means.sum() / nonzero(total(losses.new_full((), examples)))


def nonzero(total: Tensor) -> Tensor:
    """Make a divisor safe: where it is zero, divide by one instead.

    Args:
        total: Sums of non-negative weights, any shape.

    Returns:
        ``total`` with every zero replaced by a constant one.
    """
    return torch.where(total == 0, torch.ones_like(total), total)

"""The loss of the ``transformers`` Trainer for each example."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError, nearest
from tutelage.losses.objectives import (
    TokenCrossEntropy,
    binary_cross_entropy,
    losses_of,
    squared_error,
)
from tutelage.losses.reduction import counted_mean, counts_of
from tutelage.precision import upcast
from tutelage.types import Batch
from tutelage.validation.shapes import class_targets

SINGLE, SEVERAL = "single_label_classification", "multi_label_classification"
REGRESSION = "regression"
TASKS = (SINGLE, SEVERAL, REGRESSION)
"""kinds of tasks, as ``problem_type`` of a configuration"""
IGNORED = -100
"""the label that counts in no mean"""


@dataclass(frozen=True)
class TrainerLoss:
    """The Trainer's loss for each example, by kind of task and label smoothing.

    Classes and tokens: cross entropy with label smoothing; regression: squared error; several
    labels: binary cross entropy. Labels of -100 count in no mean. The loss of a sequence is the
    mean over its own tokens, and it counts as many times as it has some, so that the mean of a
    batch is the Trainer's over all its tokens.
    """

    problem: str | None = SINGLE
    """as ``problem_type`` of a configuration; None: as the labels' type has it, which is whole
    for one class of each example"""
    shifts: bool = False
    """whether logits at t predict token t + 1"""
    smoothing: float = 0.0
    counts_first: bool = False
    """whether the first token, which nothing predicts then, is one of those that a mean is
    over, as the Trainer has it for some models"""

    def __post_init__(self) -> None:
        if self.problem not in (None, *TASKS):
            raise UsageError(
                f"Unknown problem_type '{self.problem}'. {nearest(self.problem, TASKS)}"
            )
        if self.smoothing and self.problem in (REGRESSION, SEVERAL):
            raise UsageError(
                f"label_smoothing_factor is {self.smoothing:g}, but the problem_type of the "
                f"model is {self.problem}, whose labels are no classes to smooth: set it to 0."
            )

    @classmethod
    def of(
        cls, model: nn.Module, smoothing: float, labels: Tensor | None = None
    ) -> "TrainerLoss":
        """The loss of a model, by its class name and configuration."""
        config = getattr(model, "config", None)
        one = getattr(config, "num_labels", 2) == 1
        problem = getattr(config, "problem_type", None)
        if problem is None and one:
            problem = REGRESSION
        elif problem is None and labels is not None:
            problem = SEVERAL if labels.is_floating_point() else SINGLE
        shifts = type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))
        return cls(problem, shifts, smoothing)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per example."""
        if logits.ndim == 3 and self._has_classes(targets) and targets.ndim == 2:
            if not self.shifts:
                return TokenCrossEntropy(self.smoothing)(logits, targets)
            known = targets[:, 1:]
            losses = TokenCrossEntropy(self.smoothing)(logits[:, :-1], known)
            if not self.counts_first:
                return losses
            return losses * (known != IGNORED).sum(1) / self.counts_of_tokens(targets).clamp(1)
        problem = self._task(targets)
        if problem == REGRESSION:
            return squared_error(logits, targets)
        if problem == SEVERAL:
            return binary_cross_entropy(logits, targets)
        if not targets.is_floating_point():
            targets = targets.reshape(-1)  # as a column, too
        logits = upcast(logits)
        return nn.functional.cross_entropy(
            logits,
            class_targets(logits, targets, "TrainerLoss"),
            reduction="none",
            label_smoothing=self.smoothing,
        )

    def counts(self, targets: Tensor) -> Tensor | None:
        """The number of labels of each example."""
        if not self._has_classes(targets):
            return None
        if targets.ndim == 1:
            return targets != IGNORED
        return self.counts_of_tokens(targets)

    def counts_of_tokens(self, targets: Tensor) -> Tensor:
        """The number of tokens of each sequence that count in a mean."""
        own = targets[:, 1:] if self.shifts and not self.counts_first else targets
        return (own != IGNORED).flatten(1).sum(1)

    def _has_classes(self, targets: Tensor) -> bool:
        return not targets.is_floating_point() and self._task(targets) == SINGLE

    def _task(self, targets: Tensor) -> str:
        return self.problem or (SEVERAL if targets.is_floating_point() else SINGLE)


def find_trainer_loss(
    model: nn.Module, smoothing: float, batch: Batch, logits: Tensor, wanted: Tensor
) -> TrainerLoss:
    """The loss that reproduces the Trainer's own value on a batch."""
    guess = TrainerLoss.of(model, smoothing, batch.targets)
    half = torch.float16, torch.bfloat16
    near = 5e-3 if logits.dtype in half or wanted.dtype in half else 2e-5
    found = float("nan")
    shifted = replace(guess, shifts=True)
    others = replace(guess, shifts=False), shifted, replace(shifted, counts_first=True)
    for loss in (guess, *others):
        mean = counted_mean(
            upcast(losses_of(loss, logits, batch)), counts_of(loss, batch.targets), lambda x: x
        )
        if loss is guess:
            found = float(mean)
        if not wanted.isfinite() or abs(float(mean - wanted)) <= near * (
            1 + float(wanted.abs())
        ):
            return loss
    raise UsageError(
        f"{type(model).__name__} is trained by a loss of its own, {float(wanted):.4g} for the "
        f"first batch, where {guess.problem} of its logits is {found:.4g}: give "
        "Teaching(objective=...), that loss for each example."
    )

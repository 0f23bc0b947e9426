"""Checks of real steps that read numbers, most of them at the first step only."""

from tutelage.bilevel import BilevelProblem
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import require_distributions
from tutelage.teacher import implements
from tutelage.training.forward import ForwardPass, PreparedStep
from tutelage.training.micro_batches import require_separate_rows
from tutelage.training.replay_check import InitialState, require_reproducible
from tutelage.validation.shapes import require_finite_weights, require_targets


class StepChecks:
    """What is checked in the real steps of a student.

    Args:
        recomputed: Whether the first step has to give the same numbers when recomputed.
    """

    def __init__(self, *, recomputed: bool) -> None:
        self.recomputes_next = recomputed
        self._start: InitialState | None = None
        self._finite_checked = self._rows_checked = False

    def copy_start(self, problem: BilevelProblem) -> None:
        """Copy the student before its first step, which will be recomputed."""
        if self.recomputes_next:
            self._start = InitialState.of(problem.student, problem.objective)

    def require_separate_rows(
        self, problem: BilevelProblem, prepared_step: PreparedStep
    ) -> None:
        """Check micro-batches at the first step that has several."""
        if problem.micro_batch is not None and not self._rows_checked:
            self._rows_checked = require_separate_rows(
                problem, prepared_step.prepared, prepared_step.step
            )

    def require_finite(self, problem: BilevelProblem, found: ForwardPass) -> None:
        """Check targets at the first step, and weights: at every step on the CPU."""
        prepared, losses = found.prepared, found.observation.losses.detach()
        if self._finite_checked and losses.device.type != "cpu":  # reading a GPU waits for it
            return
        if not self._finite_checked:  # on the CPU wherever losses are
            known = counts_of(problem.objective, prepared.targets) is not None
            require_targets(prepared, losses, problem.objective, known=known)
            require_distributions(prepared.targets, problem.objective)
        weights = found.weights.detach()
        if implements(problem.teacher, "weigh") and weights.numel() == len(losses):
            require_finite_weights(weights, losses, prepared.ids, problem.teacher)
        self._finite_checked = True

    def require_reproducible(self, problem: BilevelProblem, found: ForwardPass) -> None:
        """Recompute the first step."""
        if self._start is not None:
            require_reproducible(
                problem, self._start, found.prepared, found.step, found.observation
            )
            self._start, self.recomputes_next = None, False

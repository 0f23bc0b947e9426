"""``TeacherUpdater``: gradient estimates of the signal, and teacher steps."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.bilevel import BilevelProblem
from tutelage.errors import InexactWindowError
from tutelage.functional.student import in_full_precision
from tutelage.functional.trees import cloned, is_finite, moved_to
from tutelage.precision import FULL, autocast_to, upcast
from tutelage.signals import Signal
from tutelage.teacher import drop_below_of
from tutelage.teachers.steps_taken import FEWEST_TEACHER_STEPS, STEPS_TAKEN
from tutelage.training.end_check import end_of_observed_step, require_same_end
from tutelage.training.not_finite import reason_of_skip
from tutelage.types import Batch, Estimate, Params, Window

_LOG = logging.getLogger(__name__)
SKIPPED = "A teacher step whose gradient is not finite is skipped, as later ones will be."


def step_if_finite(optimizer: Optimizer, params: Mapping[str, Tensor], grad: Params) -> bool:
    """Take an optimiser step if the gradient is finite; returns whether it did."""
    found = {k: grad[k].to(p.dtype) for k, p in params.items() if k in grad}
    if not is_finite({k: upcast(g).square() for k, g in found.items()}):
        return False
    for name, g in found.items():
        params[name].grad = g
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return True


class TeacherUpdater:
    """Updates the teacher: an estimate every so many student steps, some to a teacher step."""

    def __init__(
        self,
        teacher: nn.Module,
        signal: Signal,
        optimizer: Optimizer,
        every: int,
        aggregate: int,
    ) -> None:
        if not 1 <= signal.steps <= every:
            raise ValueError(
                f"The signal needs a window of {signal.steps} steps, but teacher_every is "
                f"{every}: give teacher_every={signal.steps} or more."
            )
        if not any(p.requires_grad for p in teacher.parameters()):
            raise ValueError(
                f"{type(teacher).__name__} has no trainable parameter: leave out signal and "
                "teacher_optimizer."
            )
        if drop_below_of(teacher) > 0:
            raise ValueError(
                f"{type(teacher).__name__} skips rows in real steps, but a signal recomputes "
                "steps with all rows: set its drop_below to 0."
            )
        if aggregate < 1:
            raise ValueError(f"aggregate must be at least 1, got {aggregate}.")
        self.teacher = teacher
        self.signal = signal
        self.optimizer = optimizer
        self.every = every
        self.aggregate = aggregate
        self.skipped = 0
        self.estimates: list[Estimate] = []
        self.patience = 1  # the first windows, of which one has to be reversed accurately
        self._has_estimated = self._warned = False
        self._windows = 0
        if signal.evaluate_on == "plain" and every < 2:
            raise ValueError(
                "evaluate_on='plain' needs steps without the teacher between those with it: "
                "give teacher_every=2 or more."
            )

    @property
    def uses_next_step_loss(self) -> bool:
        """Whether the held-out loss is the next training step's own."""
        return self.signal.evaluate_on != "held-out"

    @property
    def costly_checks(self) -> bool:
        """Whether the next window is checked by another pass through one of its steps."""
        return self._windows % self.signal.check_every == 0

    def due(self, steps: int) -> bool:
        """Whether the next student step is the last of a window."""
        return (steps + 1) % self.every == 0

    def in_window(self, steps: int) -> bool:
        """Whether the next student step belongs to a window."""
        return steps % self.every >= self.every - self.signal.steps

    @property
    def params(self) -> Params:
        """The teacher's trainable parameters."""
        return {k: p for k, p in self.teacher.named_parameters() if p.requires_grad}

    def params_of_step(self) -> Params:
        """``params``, or copies where another teacher step comes before that of this step."""
        return cloned(self.params) if self.uses_next_step_loss else self.params

    def learn(
        self, problem: BilevelProblem, window: Window, held_out: Batch, teacher_params: Params
    ) -> Tensor:
        """Estimate the teacher's gradient, and step after ``aggregate`` estimates.

        A step whose gradient is not finite is skipped and counted. So is, with a warning, one
        whose window could not be reversed accurately, if not all of the first were.

        Returns:
            The held-out loss.
        """
        with autocast_to(FULL, held_out.inputs.device):  # sums and products in full precision
            estimate = self._estimate(problem, window, held_out, teacher_params)
            grad = problem.processes.all_reduce_params(estimate.grad)
            if not self._has_estimated and is_finite(grad):
                self._has_estimated = True
                self._warn_if_zero(grad)
            self.estimates.append(estimate._replace(grad=grad))
            if len(self.estimates) >= self.aggregate:  # more after loading other settings
                estimates, self.estimates = self.estimates, []
                self._step(
                    self.signal.combine(problem, teacher_params, estimates), held_out, window
                )
        return estimate.held_out_loss

    def _in_full_precision(self, window: Window) -> Window:
        if not self.signal.full_precision:
            return window
        start = None if window.start is None else in_full_precision(window.start)
        return replace(window, start=start, end=in_full_precision(window.end))

    def _estimate(
        self, problem: BilevelProblem, window: Window, held_out: Batch, teacher_params: Params
    ) -> Estimate:
        window = replace(window, costly_checks=self.costly_checks)
        self._windows += 1
        try:
            found = self.signal(
                problem, teacher_params, self._in_full_precision(window), held_out
            )
        except InexactWindowError as error:
            if not self._has_estimated and self._windows >= self.patience:
                raise
            if not self._warned:
                self._warned = True
                _LOG.warning("%s This teacher step is skipped.", error)
            return error.estimate
        observed = window.observed is not None
        end = end_of_observed_step(problem, window, teacher_params) if observed else found.end
        if end is not None:
            require_same_end(window, end)
        return found._replace(end=None)

    def _warn_if_zero(self, grad: Params) -> None:
        if any(bool(g.count_nonzero()) for g in grad.values()):
            return
        _LOG.warning(
            "The first gradient of %s for %s is zero in every parameter. If the teacher "
            "samples, what it draws has no derivative: use GradientAlignment or NextStepLoss.",
            type(self.signal).__name__,
            type(self.teacher).__name__,
        )

    def _step(self, grad: Params, held_out: Batch, window: Window) -> None:
        if step_if_finite(self.optimizer, self.params, grad):
            STEPS_TAKEN[self.teacher] = STEPS_TAKEN.get(self.teacher, 0) + 1
            return
        self.skipped += 1
        if not self._warned:
            self._warned = True
            batches = [step.batch for step in window.steps]
            reason = reason_of_skip(held_out, batches, window.end.params)
            _LOG.warning("%s %s", SKIPPED, reason)

    def state_dict(self) -> dict[str, Any]:
        """The optimiser's state and the pending estimates."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "skipped": self.skipped,
            "taken": STEPS_TAKEN.get(self.teacher, 0),
            "has_estimated": self._has_estimated,
            "estimates": [[e.grad, e.held_out_loss, dict(e.facts)] for e in self.estimates],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state of ``state_dict``."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.skipped = state["skipped"]
        STEPS_TAKEN[self.teacher] = state.get("taken", FEWEST_TEACHER_STEPS)  # earlier releases
        self._windows = 0
        self._has_estimated = state["has_estimated"]
        device = next(self.teacher.parameters()).device
        self.estimates = [
            Estimate(moved_to(device, grad), loss.to(device), facts)
            for grad, loss, facts in state["estimates"]
        ]

"""``Score``: the score function of a step, for rewards that come later."""

from dataclasses import dataclass, field

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.signals.policy_gradients import policy_gradient
from tutelage.signals.signal import OneStep
from tutelage.types import Batch, Estimate, Params, Window


@dataclass(frozen=True)
class Score(OneStep):
    """``-(1/B) sum_i d log p(a_i) / d phi``, to be multiplied by a reward.

    The held-out batch is not used. ``tutelage.training.rewarded`` uses it.

    Source: Williams 1992, Simple Statistical Gradient-Following Algorithms (REINFORCE).
    """

    steps: int = field(default=1, init=False)

    def copy_start(self, student: StudentView) -> None:
        """None: the start is not needed."""

    def __call__(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        window: Window,
        held_out: Batch,  # noqa: ARG002 - the interface
    ) -> Estimate:
        """Estimate the policy gradient for a reward of one."""
        step, observed = window.steps[-1], window.observed
        assert observed is not None
        one = torch.ones(len(step.batch.ids), device=step.batch.ids.device)
        found = policy_gradient(problem, teacher_params, step, observed, one)
        return Estimate(found, torch.zeros((), device=one.device))

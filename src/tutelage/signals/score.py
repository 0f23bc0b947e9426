"""The score of what a teacher sampled at a step, for a reward that comes later."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch

from tutelage.bilevel import Task
from tutelage.signals.policy_gradients import policy_gradient
from tutelage.signals.protocol import Judge
from tutelage.types import Batch, Estimate, Params, Window


@dataclass(frozen=True)
class Score:
    """``-(1/B) sum_i d log p(a_i) / d phi``: to be multiplied by a reward once it is known.

    The held-out batch is not looked at. ``tutelage.training.accuracy_reward`` uses it.

    Source: Williams 1992, Simple Statistical Gradient-Following Algorithms (REINFORCE).
    """

    steps: int = field(default=1, init=False)
    keeps_start: ClassVar[bool] = False
    retakes: ClassVar[bool] = False
    judge: ClassVar[Judge] = "held-out"

    def records(self, task: Task) -> bool:  # noqa: ARG002 - the seam
        """Whether the step's passes are to be recorded."""
        return False

    def __call__(
        self,
        task: Task,
        teacher: Params,
        window: Window,
        held_out: Batch,  # noqa: ARG002 - the seam
    ) -> Estimate:
        """Estimate the policy gradient for a reward of one."""
        step, witness = window.steps[-1], window.witness
        assert witness is not None
        one = torch.ones(len(step.batch.ids), device=step.batch.ids.device)
        found = policy_gradient(task, teacher, step, witness, one)
        return Estimate(found, torch.zeros((), device=one.device))

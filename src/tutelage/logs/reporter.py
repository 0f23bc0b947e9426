"""Every few steps of a tutor, what a person wants to see of them."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from tutelage.logs.numbers import weight_numbers
from tutelage.logs.places import Log
from tutelage.training.forward import Record
from tutelage.training.tutor import Tutor


class Reporter:
    """Tells logs how a tutor's student and teacher fare.

    ``docs/logging.md`` lists the names. What is not there is left out: the held-out loss before
    the signal first looked, the norm of a hypergradient before the teacher first moved.

    Between two steps that are told it holds on to tensors and computes no number but that norm,
    once for every teacher step; where it tells, all numbers of a step come from the device at
    once.

    Args:
        tutor: Whose steps they are.
        *logs: Where numbers go, one after the other; where there is none, nothing is looked at.
        every: Student steps between two that are told.

    Raises:
        ValueError: If ``every`` is below 1.

    Note: where a student is trained by several processes, numbers are of the rows of the one
    that tells; let one of them do it.
    """

    def __init__(self, tutor: Tutor, *logs: Log, every: int = 50) -> None:
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}.")
        self.tutor = tutor
        self.logs = logs
        self.every = every
        self._held_out_loss: Tensor | None = None
        self._norm: Tensor | None = None
        self._hook = None
        if logs and (learner := tutor.teacher_updater) is not None:
            self._hook = learner.optimizer.register_step_pre_hook(self._seen)

    def __call__(self, record: Record) -> None:
        """Tell of a step where its turn has come; to be called once for each."""
        if record.held_out_loss is not None:
            self._held_out_loss = record.held_out_loss
        if self.logs and self.tutor.steps % self.every == 0:
            self.tell(self.numbers(record))

    def tell(self, numbers: Mapping[str, float]) -> None:
        """Tell other numbers of the step that was just taken.

        Args:
            numbers: By name.
        """
        for log in self.logs:
            log(self.tutor.steps, numbers)

    def numbers(self, record: Record) -> dict[str, float]:
        """What would be told of a step; waits for the device, once.

        Args:
            record: What ``Tutor.step`` gave.

        Returns:
            By name.
        """
        seen: dict[str, Tensor | None] = {
            "student/loss": record.loss,
            "student/unweighted_loss": record.losses.mean(),
            "student/left_out": record.left_out,
            "teacher/held_out_loss": self._held_out_loss,
            "teacher/hypergradient_norm": self._norm,
        }
        seen |= {f"weights/{k}": x for k, x in weight_numbers(record.weights).items()}
        there = {k: x.detach().float() for k, x in seen.items() if x is not None}
        device = record.loss.device
        values = torch.stack([x.to(device) for x in there.values()]).tolist()
        found = dict(zip(there, values, strict=True))
        if found["weights/entropy"] != found["weights/entropy"]:
            del found["weights/entropy"]
        if self.tutor.teacher_updater is not None:
            found["teacher/skipped_steps"] = float(self.tutor.skipped_teacher_steps)
        return found

    def close(self) -> None:
        """Look at the teacher's steps no longer, and close the logs that can be closed."""
        if self._hook is not None:
            self._hook.remove()
        for log in self.logs:
            if callable(close := getattr(log, "close", None)):
                close()

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _seen(self, optimizer: Any, *_: object) -> None:
        held = [p.grad for group in optimizer.param_groups for p in group["params"]]
        grads = [g.detach() for g in held if g is not None]
        if grads:
            self._norm = torch.nn.utils.get_total_norm(grads)

"""``Reporter``: periodic logging of a tutor's steps."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from tutelage.logs.numbers import weight_numbers
from tutelage.logs.places import Log
from tutelage.training.forward import StepResult
from tutelage.training.tutor import Tutor


class Reporter:
    """Logs the steps of a tutor at intervals.

    ``docs/logging.md`` lists the names. Values that do not exist yet are left out: the held-out
    loss before the first estimate, the hypergradient's norm before the first teacher step.

    Between logged steps it keeps tensors and computes nothing but that norm, once for every
    teacher step. All numbers of a logged step are copied from the device at once.

    Args:
        tutor: The tutor whose steps are logged.
        *logs: Log targets; without one, nothing is computed.
        every: Student steps between two logged steps.

    Raises:
        ValueError: If ``every`` is below 1.

    Note: where several processes train a student, numbers are those of this process's rows; log
    from one of them.
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
        if logs and (updater := tutor.teacher_updater) is not None:
            self._hook = updater.optimizer.register_step_pre_hook(self._seen)

    def __call__(self, record: StepResult) -> None:
        """Log the step just taken, if its turn has come; call it after every step."""
        if record.held_out_loss is not None:
            self._held_out_loss = record.held_out_loss
        if self.logs and self.tutor.steps % self.every == 0:
            self.log(self.numbers(record))

    def log(self, numbers: Mapping[str, float]) -> None:
        """Log other numbers of the step just taken.

        Args:
            numbers: By name.
        """
        for log in self.logs:
            log(self.tutor.steps, numbers)

    def numbers(self, record: StepResult) -> dict[str, float]:
        """The numbers of a step; synchronises with the device once.

        Args:
            record: The result of ``Tutor.step``.

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
        """Remove hooks and close the logs."""
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

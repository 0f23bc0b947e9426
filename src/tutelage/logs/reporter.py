"""``Reporter``: periodic logging of a tutor's steps."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tutelage.logs.loggers import Log
from tutelage.training.forward import StepResult
from tutelage.training.tutor import Tutor

QUANTILES = {"min": 0.0, "q10": 0.1, "median": 0.5, "q90": 0.9, "max": 1.0}
"""shares of rows whose weight is at most the number of that name"""


def weight_numbers(weights: Float[Tensor, "L"]) -> dict[str, Tensor]:
    """Quantiles, effective sample size and entropy of L weights.

    ``effective_size = (sum w)^2 / sum w^2``, in rows: L where all weigh the same, 1 where one
    alone does, 0 where none does. ``entropy = -sum p log p`` with ``p = w / sum w``, in nats:
    log L at most; NaN where weights sum to nothing or one is negative.

    Args:
        weights: As the teacher gives them, before normalisation; L at least 1.

    Returns:
        Scalars where the weights are, so that nothing waits for the device: ``mean``, those of
        ``QUANTILES`` (interpolated linearly), ``effective_size``, ``entropy``.

    Source: Kish 1965, Survey Sampling, for the effective size.
    """
    w = weights.detach().float()
    total, squares = w.sum(), w.square().sum()
    none = torch.zeros_like(total)
    shares = torch.tensor(list(QUANTILES.values()), dtype=w.dtype).to(w.device)
    found: Mapping[str, Tensor] = dict(zip(QUANTILES, w.quantile(shares), strict=True))
    p = w / total
    return {
        "mean": w.mean(),
        **found,
        "effective_size": torch.where(squares == 0, none, total.square() / squares),
        "entropy": torch.special.entr(torch.where(w < 0, torch.nan, p)).sum(),
    }


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

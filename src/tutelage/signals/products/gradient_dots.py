"""Mixed products from per-example products, for teachers that only weigh."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.trees import leaves
from tutelage.per_example import (
    Losses,
    Recorder,
    central_dots,
    forward_difference_dots,
    forward_dots,
)
from tutelage.per_example.units import synchronises_batch_norm
from tutelage.precision import FULL, upcast
from tutelage.signals.products.row_dots import (
    DotProducts,
    losses_function,
    mixed_from_dots,
    only_weighs,
)
from tutelage.teacher import is_attached
from tutelage.types import Params, Step, StepObservation, StudentState

Method = Literal["forward", "ghost", "difference", "one-sided"]
CLOSE = 3e-4
"""norm of ``e v`` for differences to one side, whose bias grows with it: on a ResNet-20 a
hypergradient's error was 0.2 to 0.4% here and 0.7 to 0.8% at three times as much"""


@dataclass(frozen=True)
class Alignment(DotProducts):
    """``M v`` from per-example dot products; ``H v`` by double backward.

    Where the teacher enters through weights only, the loss is linear in the per-example losses,
    so that ``<dL/dtheta, v>`` is the same reduction of the dot products ``<dl_i/dtheta, v>``,
    and a backward pass through the teacher alone is left to do. ``tutelage.per_example`` has
    the methods: ``"forward"`` is exact for every student, ``"ghost"`` is exact without batch
    statistics, and ``"difference"`` (of losses, central) is inexact and takes hardly any
    memory; ``"one-sided"`` takes a forward pass less where the losses at the step are known.

    Raises:
        ValueError: If there is no such method.
    """

    method: Method = "forward"

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            allowed = ", ".join(get_args(Method))
            raise ValueError(f"method must be one of {allowed}, got {self.method}.")

    @property
    def by_differences(self) -> bool:
        """Whether ``M v`` is a difference of values."""
        return self.method in ("difference", "one-sided")

    def check(self, problem: BilevelProblem) -> None:
        """Refuse micro-batches and batch statistics of several processes for ``"ghost"``."""
        together = synchronises_batch_norm(problem.processes, problem.student.module)
        if together and self.method == "ghost":
            raise ValueError(
                "Alignment('ghost') reads the passes of one process, but each row depends "
                "on those of others by batch normalisation: use Alignment('forward')."
            )
        if problem.micro_batch is not None and self.method == "ghost":
            reason = "Alignment('ghost') reads one pass over all rows; 'forward' does not"
            raise ValueError(f"micro_batch={problem.micro_batch} does not work here: {reason}.")

    def records(self, problem: BilevelProblem) -> bool:
        """Whether the dot products can be read from recorded passes."""
        return self.method == "ghost" and not is_attached(problem.teacher)

    def dots(
        self,
        problem: BilevelProblem,
        start: StudentState,
        step: Step,
        v: Params,
        observed: StepObservation,
    ) -> Tensor:
        """``<d l_i / d theta, v>`` [L] at a real step, by passes of its own."""
        if self.method == "one-sided":
            return one_sided(problem, start, step, v, observed)
        losses, _ = losses_function(problem, start, observed.prepared, step)
        return self._dots(problem, losses, start.params, v, len(observed.prepared.ids))

    def _dots(
        self, problem: BilevelProblem, losses: Losses, params: Params, v: Params, rows: int
    ) -> Tensor:
        match self.method:
            case "forward":
                return forward_dots(losses, params, v)
            case "difference":
                return central_dots(losses, params, v)
            case "one-sided":
                with torch.no_grad():
                    here = losses({k: upcast(p) for k, p in params.items()})
                return forward_difference_dots(losses, params, v, here, CLOSE)
            case _:
                return ghost(problem, losses, params, v, rows)

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher_params: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone."""
        prepared = problem.prepare(teacher_params, step.batch)
        if not only_weighs(problem, prepared):
            raise UnsupportedStudentError(
                f"{type(problem.teacher).__name__} does more than weigh examples, so dot "
                "products "
                "are not enough. Use DoubleBackward."
            )
        losses, observations = losses_function(problem, state, prepared, step)
        if self.method == "difference":
            with torch.no_grad():
                losses({})
        dots = self._dots(problem, losses, state.params, v, len(prepared.ids))
        return mixed_from_dots(problem, teacher_params, step, prepared, observations[0], dots)


def ghost(
    problem: BilevelProblem, losses: Losses, params: Params, v: Params, rows: int
) -> Tensor:
    """Per-example products from a recorded forward and backward pass."""
    theta = leaves(params)
    recorder = Recorder(problem.student.module)
    with torch.enable_grad(), recorder.record(rows, theta, verified=True) as recording:
        found = losses(theta)
        recording.verify(found)
        torch.autograd.grad(found.sum(), list(theta.values()), allow_unused=True)
    return recording.dots(v, recording.ones())


def one_sided(
    problem: BilevelProblem,
    start: StudentState,
    step: Step,
    v: Params,
    observed: StepObservation,
) -> Tensor:
    """``(l_i(theta + e v) - l_i(theta)) / e``, with known losses at the step.

    One forward pass, where central differences take two; both are taken anew in float32 where
    the step was in half precision, whose losses are no good for differences.
    """
    prepared, here = observed.prepared, observed.observation.losses
    half = prepared.autocast != FULL or any(p.dtype != upcast(p).dtype for p in v.values())
    losses, _ = losses_function(problem, start, prepared._replace(autocast=FULL), step)
    if half:
        with torch.no_grad():
            here = losses({k: upcast(p) for k, p in start.params.items()})
    return forward_difference_dots(losses, start.params, v, here, CLOSE)

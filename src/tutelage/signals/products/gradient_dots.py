"""Mixed products from per-example products, for teachers that only weigh."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.replay_context import detach
from tutelage.functional.trees import leaves, named_grad
from tutelage.per_example import (
    Losses,
    Recorder,
    central_dots,
    forward_difference_dots,
    forward_dots,
)
from tutelage.precision import wide
from tutelage.signals.products.double_backward import DoubleBackward, GradientGraph
from tutelage.teacher import is_deep
from tutelage.types import Lesson, Observation, Params, Step, StudentState

Method = Literal["forward", "ghost", "difference", "one-sided"]
CLOSE = 3e-4
"""norm of ``e v`` for differences to one side, whose bias grows with it: on a ResNet-20 a
hypergradient's error was 0.2 to 0.4% here and 0.7 to 0.8% at three times as much"""


@dataclass(frozen=True)
class Alignment:
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

    def records(self, problem: BilevelProblem) -> bool:
        """Whether per-example products can be read from a step's own passes."""
        return self.method == "ghost" and not is_deep(problem.teacher)

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher: Params, step: Step
    ) -> GradientGraph:
        """The step's gradient with its graph."""
        return DoubleBackward().linearise(problem, state, teacher, step)

    def dots(
        self,
        problem: BilevelProblem,
        state: StudentState,
        lesson: Lesson,
        step: Step,
        v: Params,
    ) -> Tensor:
        """``<dl_i/dtheta, v>`` for every row."""
        losses, _ = losses_function(problem, state, lesson, step)
        return self._dots(problem, losses, state.params, v, len(lesson.ids))

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
                    here = losses({k: wide(p) for k, p in params.items()})
                return forward_difference_dots(losses, params, v, here, CLOSE)
            case _:
                return ghost(problem, losses, params, v, rows)

    def mixed(
        self,
        problem: BilevelProblem,
        state: StudentState,
        teacher: Params,
        step: Step,
        v: Params,
    ) -> Params:
        """``M v`` alone."""
        lesson = problem.lesson(teacher, step.batch)
        if not only_weighs(problem, lesson):
            raise UnsupportedStudentError(
                f"{type(problem.teacher).__name__} does more than weigh examples, so dot "
                "products "
                "are not enough. Use DoubleBackward."
            )
        losses, observations = losses_function(problem, state, lesson, step)
        if self.method == "difference":
            with torch.no_grad():
                losses({})
        dots = self._dots(problem, losses, state.params, v, len(lesson.ids))
        weights = problem.weights(teacher, lesson, observations[0], step.batch.seed)
        return named_grad(problem.reduce(dots, weights, lesson), teacher)


def only_weighs(problem: BilevelProblem, lesson: Lesson) -> bool:
    """Whether the teacher's parameters enter the loss through weights alone.

    Args:
        problem: The student learning under the teacher.
        lesson: What it prepared.

    Returns:
        False where the lesson depends on them, or weights on the student's parameters.
    """
    visible = (lesson.inputs, lesson.targets, lesson.aux)
    return not is_deep(problem.teacher) and not any(
        part is not None and part.requires_grad for part in visible
    )


def losses_function(
    problem: BilevelProblem, state: StudentState, lesson: Lesson, step: Step
) -> tuple[Losses, list[Observation]]:
    """The student's losses as a function of its parameters, and a list of observations."""
    observations: list[Observation] = []

    def losses(params: Params) -> Tensor:
        moved = state._replace(params=state.params | params)
        observation, _ = problem.observe(moved, lesson, step)
        features = {k: unpack_dual(f).primal for k, f in observation.features.items()}
        values, logits = (
            unpack_dual(observation.losses).primal,
            unpack_dual(observation.logits).primal,
        )
        observations.append(detach(Observation(values, logits, features, step.progress)))
        return observation.losses

    return losses, observations


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

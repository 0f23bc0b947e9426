"""Per-example dot products of a step, for teachers that only weigh."""

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.replay_context import detach
from tutelage.functional.trees import detached, named_grad
from tutelage.per_example import Losses, forward_dots
from tutelage.signals.products.double_backward import DoubleBackward, GradientGraph
from tutelage.signals.products.product import Product
from tutelage.teacher import is_attached
from tutelage.types import (
    Observation,
    Params,
    PreparedBatch,
    RecordedPasses,
    Step,
    StepObservation,
    StudentState,
)


class DotProducts(Product):
    """Base class of products by the dot products ``<d l_i / d theta, v>`` of rows."""

    def dots(
        self,
        problem: BilevelProblem,
        start: StudentState,
        step: Step,
        v: Params,
        observed: StepObservation,
    ) -> Tensor:
        """``<d l_i / d theta, v>`` [L] at a real step, by passes of its own."""
        raise NotImplementedError

    def gives_gradient(self, problem: BilevelProblem) -> bool:  # noqa: ARG002 - a hook
        """Whether ``mixed`` computes the step's gradient as well."""
        return False

    def linearise(
        self, problem: BilevelProblem, state: StudentState, teacher_params: Params, step: Step
    ) -> GradientGraph:
        """The step's gradient with its graph."""
        return DoubleBackward().linearise(problem, state, teacher_params, step)

    def dots_of_step(
        self,
        problem: BilevelProblem,
        start: StudentState,
        teacher_params: Params,
        step: Step,
        v: Params,
        observed: StepObservation,
        *,
        weighted_only: bool = False,
    ) -> Tensor:
        """``dots`` [L], from the recorded passes of the step where there are any."""
        recorded = observed.recorded
        # another process may have recorded its rows where this one has not: both send a message
        if recorded is not None or problem.processes.size > 1:
            coefficients = row_coefficients(problem, teacher_params, step, observed)
            if recorded is not None:
                try:
                    return recorded_dots(recorded, coefficients, v, weighted_only=weighted_only)
                except UnsupportedStudentError:  # the passes do not show everything
                    return exact_dots(problem, start, observed.prepared, step, v)
        return self.dots(problem, start, step, v, observed)

    def mixed_of_step(
        self,
        problem: BilevelProblem,
        start: StudentState,
        teacher_params: Params,
        step: Step,
        v: Params,
        observed: StepObservation | None,
    ) -> Params:
        """``M v`` of a real step, from its dot products where the teacher only weighs."""
        if observed is None or not only_weighs(
            problem, problem.prepare(teacher_params, step.batch)
        ):
            return self.mixed(problem, start, teacher_params, step, v)
        dots = self.dots_of_step(problem, start, teacher_params, step, v, observed)
        return mixed_from_dots(
            problem, teacher_params, step, observed.prepared, observed.observation, dots
        )


def exact_dots(
    problem: BilevelProblem, state: StudentState, prepared: PreparedBatch, step: Step, v: Params
) -> Tensor:
    """``<d l_i / d theta, v>`` [L] by forward mode."""
    losses, _ = losses_function(problem, state, prepared, step)
    return forward_dots(losses, state.params, v)


def mixed_from_dots(
    problem: BilevelProblem,
    teacher_params: Params,
    step: Step,
    prepared: PreparedBatch,
    observation: Observation,
    dots: Tensor,
) -> Params:
    """``M v`` of a teacher that only weighs, from the dot products of rows [L]."""
    weights = problem.weights(teacher_params, prepared, observation, step.batch.seed)
    return named_grad(problem.reduce(dots, weights, prepared), teacher_params)


def only_weighs(problem: BilevelProblem, prepared: PreparedBatch) -> bool:
    """Whether the teacher's parameters enter the loss through weights alone.

    Args:
        problem: The student learning under the teacher.
        prepared: What it prepared.

    Returns:
        False where that depends on them, or weights on the student's parameters.
    """
    visible = (prepared.inputs, prepared.targets, prepared.aux)
    return not is_attached(problem.teacher) and not any(
        part is not None and part.requires_grad for part in visible
    )


def losses_function(
    problem: BilevelProblem, state: StudentState, prepared: PreparedBatch, step: Step
) -> tuple[Losses, list[Observation]]:
    """The student's losses as a function of its parameters, and a list of observations."""
    observations: list[Observation] = []

    def losses(params: Params) -> Tensor:
        moved = state._replace(params=state.params | params)
        observation, _ = problem.observe(moved, prepared, step)
        features = {k: unpack_dual(f).primal for k, f in observation.features.items()}
        values = unpack_dual(observation.losses).primal
        logits = unpack_dual(observation.logits).primal
        observations.append(detach(Observation(values, logits, features, step.progress)))
        return observation.losses

    return losses, observations


def row_coefficients(
    problem: BilevelProblem, teacher_params: Params, step: Step, observed: StepObservation
) -> Tensor:
    """The derivative of the weighted loss with respect to each row's loss."""
    prepared, observation = observed.prepared, observed.observation
    weights = problem.weights(detached(teacher_params), prepared, observation, step.batch.seed)
    losses = observation.losses.detach().requires_grad_()
    return torch.autograd.grad(problem.reduce(losses, weights, prepared), losses)[0]


def recorded_dots(
    recorded: RecordedPasses, coefficients: Tensor, v: Params, *, weighted_only: bool
) -> Tensor:
    """Products read from a recording."""
    absent = coefficients == 0
    if bool(absent.any()) and not weighted_only:
        raise UnsupportedStudentError("A row of weight zero left nothing to read off.")
    return recorded.dots(v, coefficients.where(~absent, 1))

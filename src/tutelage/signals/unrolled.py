"""``Unrolled``: backpropagation through every student step."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.functional.trees import detached, grads_of_both, leaves, named_grad
from tutelage.signals.facts import facts_of
from tutelage.signals.signal import Signal
from tutelage.types import Batch, Estimate, HeldOutLoss, Params, Step, StudentState


@dataclass(frozen=True)
class Unrolled(Signal):
    """Recomputes the window's steps with their graphs, and differentiates through them.

    Exact for SGD, Adam and AdamW but for one path: if a teacher weighs by losses or features
    and is not ``attached``, the effect of earlier steps on later weights is left out (in one
    example 6% over 2 steps, 20% over 5, and twice the whole over 20), and ``Estimate.facts``
    has ``weights_fixed``. Memory grows with the number of steps. Other signals are tested
    against this one.

    Note: this holds for every signal. Recomputed steps see the batch, the optimiser's settings
    and the student's random numbers as they were. They do not see hooks that edit gradients,
    or what changes the student or its optimiser's state between two steps; the tutor refuses
    windows whose recomputed steps end elsewhere for this (``UnsupportedStudentError``). What
    the student, the objective or a teacher's ``row_losses`` detaches is held fixed, and
    ``facts`` has ``detached`` where that changes the derivative. Buffers that follow parameters
    are held fixed from one step to the next.

    Raises:
        ValueError: If ``steps`` is below 1.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}.")

    def estimate_run(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        """Run the steps and estimate the hypergradient of the final student."""
        loss, end = _run(problem, teacher_params, _leaf(start), steps, held_out)
        held_out_loss = problem.processes.all_reduce(loss.detach())
        grad = named_grad(loss, teacher_params)
        facts = facts_of(
            problem, teacher_params, start, steps[0], held_out, several=len(steps) > 1
        )
        return Estimate(grad, held_out_loss, facts), end

    def start_gradient(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[HeldOutLoss, StudentState]:
        """Run the steps and differentiate the held-out loss in the initial parameters."""
        start = _leaf(start)
        loss, end = _run(problem, teacher_params, start, steps, held_out)
        student, own = grads_of_both(loss, start.params, teacher_params)
        processes = problem.processes
        held_out_loss = processes.all_reduce(loss.detach())
        return HeldOutLoss(held_out_loss, processes.all_reduce_params(student), own), end


def _leaf(start: StudentState) -> StudentState:
    return start._replace(params=leaves(start.params))


def _run(
    problem: BilevelProblem,
    teacher_params: Params,
    state: StudentState,
    steps: Sequence[Step],
    held_out: Batch,
) -> tuple[Tensor, StudentState]:
    # the loss with its graph, the student at the end without
    for step in steps:
        state = problem.differentiable_step(state, teacher_params, step)
    loss = problem.held_out_loss(state, teacher_params, held_out)
    slots = {slot: detached(memory) for slot, memory in state.slots.items()}
    return loss, StudentState(detached(state.params), state.buffers, slots)

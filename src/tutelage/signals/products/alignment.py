"""Mixed products without a second derivative, where the teacher only weighs."""

import warnings
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from tutelage.errors import UnsupportedStudentError
from tutelage.records import Lesson, Observation, Params, Step, StudentState
from tutelage.signals.products.double_backward import DoubleBackward, GradientGraph
from tutelage.task import Task, detach
from tutelage.teaching import is_deep
from tutelage.trees import named_grad


@dataclass(frozen=True)
class Alignment:
    """``M v`` from per-example dot products; ``H v`` by double backward.

    Where the teacher enters through weights only, the loss is linear in the per-example losses,
    so that ``<dL/dtheta, v>`` is the same reduction of the dot products ``<dl_i/dtheta, v>``:
    one forward pass in forward mode and a backward pass through the teacher alone. Exact.
    """

    def linearise(
        self, task: Task, state: StudentState, teacher: Params, step: Step
    ) -> GradientGraph:
        """The step's gradient with its graph.

        Args:
            task: The student learning under the teacher.
            state: The student before the step.
            teacher: Teacher parameters, requiring grad.
            step: The step.

        Returns:
            The gradient, ready for products.
        """
        return DoubleBackward().linearise(task, state, teacher, step)

    def mixed(
        self, task: Task, state: StudentState, teacher: Params, step: Step, v: Params
    ) -> Params:
        """``M v`` alone.

        Args:
            task: The student learning under the teacher.
            state: The student before the step.
            teacher: Teacher parameters, requiring grad.
            step: The step.
            v: Direction, keyed like the student's parameters; a missing one counts as zero.

        Returns:
            Keyed like the teacher.

        Raises:
            UnsupportedStudentError: If the teacher does more than weigh.
        """
        lesson = task.lesson(teacher, step.batch)
        if not only_weighs(task, lesson):
            raise UnsupportedStudentError(
                f"{type(task.teacher).__name__} does more than weigh examples, so dot products "
                "are not enough. Use DoubleBackward."
            )
        dots, seen = dot_products(task, state, lesson, step, v)
        weights = task.weights(teacher, lesson, seen, step.batch.seed)
        return named_grad(task.reduce(dots, weights, lesson), teacher)


def only_weighs(task: Task, lesson: Lesson) -> bool:
    """Whether the teacher's parameters enter the loss through weights alone.

    Args:
        task: The student learning under the teacher.
        lesson: What it prepared.

    Returns:
        False where the lesson depends on them, or weights on the student's parameters.
    """
    return not (
        is_deep(task.teacher) or lesson.inputs.requires_grad or lesson.targets.requires_grad
    )


def dot_products(
    task: Task, state: StudentState, lesson: Lesson, step: Step, v: Params
) -> tuple[Tensor, Observation]:
    """Dot product of every example's gradient with a direction: ``<dl_i/dtheta, v>``.

    The forward-mode derivative of the losses along ``v``; with batch normalisation in training
    mode it includes the path through the batch statistics.

    Args:
        task: The student learning under the teacher.
        state: The student.
        lesson: The rows to look at.
        step: The step whose seed and progress apply.
        v: Direction, keyed like the student's parameters; a missing one counts as zero.

    Returns:
        Dot products [L], and the observation at ``state``.
    """
    load_forward_mode()
    # dual tensors, not torch.func.jvp: under that, dropout may draw another mask
    with torch.no_grad(), dual_level():
        moved = {k: make_dual(state.params[k].detach(), d) for k, d in v.items()}
        seen, _ = task.observe(state._replace(params=state.params | moved), lesson, step)
        losses, dots = unpack_dual(seen.losses)
        features = {k: unpack_dual(f).primal for k, f in seen.features.items()}
        here = Observation(losses, unpack_dual(seen.logits).primal, features, step.progress)
    return torch.zeros_like(losses) if dots is None else dots, detach(here)


@cache
def load_forward_mode() -> None:
    """Let torch compile its forward-mode formulas, silencing its own deprecation warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with dual_level():
            make_dual(torch.zeros(()), torch.zeros(()))

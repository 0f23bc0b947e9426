"""Forward and backward pass of one training step, optionally in micro-batches."""

from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import is_sharded
from tutelage.distributed.groups import Processes
from tutelage.distributed.reduce import (
    all_reduce_backward,
    require_no_static_graph,
    sum_wrapper_grads,
)
from tutelage.functional.student import StudentView
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import require_distributions
from tutelage.teacher import implements
from tutelage.training.forward import ForwardPass
from tutelage.training.micro_batches import (
    backward_micro_batches,
    forward_without_graph,
    require_separate_rows,
)
from tutelage.training.replay_check import Start, require_reproducible
from tutelage.training.skip_rows import forward_or_skip_rows
from tutelage.training.step_strategy import StepStrategy
from tutelage.types import Lesson, Step
from tutelage.validation.shapes import require_finite_weights, require_targets


class StudentStep:
    """Runs the passes of real steps through the student as the user gave it.

    Args:
        student: The module as the user gave it, compiled or wrapped.
        view: The same module, unwrapped.
        step_strategy: Runs the backward pass and the optimiser.
        processes: Those that train the student together.
        reproducible: Whether to leave out the check that the first step can be recomputed.
    """

    def __init__(
        self,
        student: nn.Module,
        view: StudentView,
        step_strategy: StepStrategy,
        processes: Processes,
        *,
        reproducible: bool,
    ) -> None:
        self.student = student
        self.view = view
        self.step_strategy = step_strategy
        self.processes = processes
        self.reproducible = reproducible
        self._before: Start | None = None
        self._checked = False
        self._rows_checked = False

    def records_rows(self, problem: BilevelProblem) -> bool:
        """Whether a ``Recorder`` can read per-example gradients off these passes."""
        whole = problem.micro_batch is None and not is_sharded(self.view.module)
        return whole and not self.step_strategy.scales

    def begin(self, objective: object) -> None:
        """Copy the student before its first step, for the check that follows."""
        self._before = None if self.reproducible else Start.of(self.view, objective)

    def run_forward(
        self,
        problem: BilevelProblem,
        step: Step,
        lesson: Lesson,
        alignments: Tensor | None = None,
        student_lesson: Lesson | None = None,
    ) -> ForwardPass:
        """Run the forward pass and weigh the rows."""
        if problem.micro_batch is not None and not self._rows_checked:
            self._rows_checked = require_separate_rows(problem, lesson, step)
        forward = forward_or_skip_rows if problem.micro_batch is None else forward_without_graph
        forward_pass = forward(problem, self.student, step, lesson, alignments, student_lesson)
        self._require_finite(problem, forward_pass)
        return forward_pass

    def _require_finite(self, problem: BilevelProblem, found: ForwardPass) -> None:
        lesson, losses, weights = found.lesson, found.observation.losses.detach(), found.weights
        if self._checked and losses.device.type != "cpu":  # at the first step: a GPU waits
            return
        if not self._checked:  # on the CPU wherever losses are
            known = counts_of(problem.objective, lesson.targets) is not None
            require_targets(lesson, losses, problem.objective, known=known)
            require_distributions(lesson.targets, problem.objective)
        if implements(problem.teacher, "weigh") and weights.numel() == len(losses):
            require_finite_weights(weights.detach(), losses, lesson.ids, problem.teacher)
        self._checked = True

    def run_backward(
        self,
        problem: BilevelProblem,
        forward_pass: ForwardPass,
        step: Step,
        *,
        retain_graph: bool = False,
    ) -> ForwardPass:
        """Run the backward pass and leave the gradient, summed over processes, in ``.grad``."""
        if self._before is not None:
            require_reproducible(
                problem, self._before, forward_pass.lesson, step, forward_pass.observation
            )
            self._before, self.reproducible = None, True
        self.view.optimizer.zero_grad(set_to_none=True)
        together = self.processes.size > 1
        if problem.micro_batch is not None:
            backward_micro_batches(
                problem, self.student, step, forward_pass, self.step_strategy, self.processes
            )
        elif retain_graph and together:  # wrappers see one backward pass a step
            require_no_static_graph(self.student)
            all_reduce_backward(self.processes, forward_pass.loss, self.view.params.values())
        else:
            self.step_strategy.backward(
                forward_pass.loss, self.view.optimizer, retain_graph=retain_graph
            )
            if together:  # naming the parameters is not free
                sum_wrapper_grads(self.processes, self.view.params.values())
        return forward_pass._replace(loss=self.processes.all_reduce(forward_pass.loss.detach()))

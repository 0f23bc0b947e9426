"""The forward and backward passes of a real step, through the student as the user gave it."""

from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import is_sharded
from tutelage.distributed.groups import Processes
from tutelage.distributed.reduce import (
    all_reduce_backward,
    all_reduce_grads,
    require_no_static_graph,
    sum_wrapper_grads,
)
from tutelage.functional.student import StudentView
from tutelage.functional.trees import plus
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import require_distributions
from tutelage.teacher import implements
from tutelage.training.forward import ForwardPass
from tutelage.training.micro_batches import (
    forward_without_graph,
    micro_batch_losses,
    no_gradient_sync,
)
from tutelage.training.replay_check import Start, require_reproducible
from tutelage.training.skip_rows import forward_or_skip_rows
from tutelage.training.step_strategy import StepStrategy
from tutelage.types import Lesson, Step
from tutelage.validation.shapes import require_finite_weights, require_targets


class StudentStep:
    """How they are taken: at once or a few rows at a time, by one process or several.

    Args:
        student: The module as the user gave it, compiled or wrapped.
        view: The same, as signals see it.
        step_strategy: How a gradient comes about.
        processes: Those that train the student together.
        proven: Whether signals are known to see the student's own numbers, or there are none.
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

    def records_rows(self, problem: BilevelProblem) -> bool:
        """Whether a recorder sees each row's own gradient in them."""
        whole = problem.micro_batch is None and not is_sharded(self.view.module)
        return whole and not self.step_strategy.scales

    def begin(self) -> None:
        """Before a step: remember the student until its numbers are known to be its own."""
        self._before = None if self.reproducible else Start.of(self.view)

    def run_forward(
        self,
        problem: BilevelProblem,
        step: Step,
        lesson: Lesson,
        alignments: Tensor | None = None,
        student_lesson: Lesson | None = None,
    ) -> ForwardPass:
        """The forward pass, and the weights."""
        first = forward_or_skip_rows if problem.micro_batch is None else forward_without_graph
        found = first(problem, self.student, step, lesson, alignments, student_lesson)
        self._require_finite(problem, found)
        return found

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
        """The backward pass: leave the gradient of all processes' rows in the parameters."""
        if self._before is not None:
            require_reproducible(
                problem, self._before, forward_pass.lesson, step, forward_pass.observation
            )
            self._before, self.reproducible = None, True
        self.view.optimizer.zero_grad(set_to_none=True)
        together = self.processes.size > 1
        if problem.micro_batch is not None:
            self._in_parts(problem, forward_pass, step)
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

    def _in_parts(self, problem: BilevelProblem, forward_pass: ForwardPass, step: Step) -> None:
        params, total = self.view.params, {}
        with no_gradient_sync(self.student):
            for share in micro_batch_losses(problem, self.student, step, forward_pass):
                self.view.optimizer.zero_grad(set_to_none=True)
                self.step_strategy.backward(share, self.view.optimizer, retain_graph=False)
                found = {k: p.grad for k, p in params.items() if p.grad is not None}
                total = {**found, **plus(total, found)}
        for name, grad in total.items():
            params[name].grad = grad
        all_reduce_grads(self.processes, params.values())

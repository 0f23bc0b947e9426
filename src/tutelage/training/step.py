"""The forward and backward passes of a real step, through the student as the user gave it."""

from torch import Tensor, nn

from tutelage.bilevel import Task
from tutelage.distributed.fsdp import is_sharded
from tutelage.distributed.groups import Processes
from tutelage.distributed.reduce import (
    gather,
    leave_sums,
    require_no_static_graph,
    tried_together,
)
from tutelage.functional.student import StudentView
from tutelage.functional.trees import plus
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import require_distributions
from tutelage.training.forward import Look
from tutelage.training.micro_batches import look_first, shares, unsummed
from tutelage.training.replay_check import Start, require_reproducible
from tutelage.training.skip_rows import look_or_lighter
from tutelage.training.step_strategy import Descent
from tutelage.types import Lesson, Step
from tutelage.validation.shapes import require_finite_weights, require_targets


class Passes:
    """How they are taken: at once or a few rows at a time, by one process or several.

    Args:
        student: The module as the user gave it, compiled or wrapped.
        view: The same, as signals see it.
        descent: How a gradient comes about.
        processes: Those that train the student together.
        proven: Whether signals are known to see the student's own numbers, or there are none.
    """

    def __init__(
        self,
        student: nn.Module,
        view: StudentView,
        descent: Descent,
        processes: Processes,
        *,
        proven: bool,
    ) -> None:
        self.student = student
        self.view = view
        self.descent = descent
        self.processes = processes
        self.proven = proven
        self._before: Start | None = None
        self._checked = False

    def show_rows(self, task: Task) -> bool:
        """Whether a recorder sees each row's own gradient in them."""
        whole = task.micro_batch is None and not is_sharded(self.view.module)
        return whole and not self.descent.scales

    def begin(self) -> None:
        """Before a step: remember the student until its numbers are known to be its own."""
        self._before = None if self.proven else Start.of(self.view)

    def look(
        self,
        task: Task,
        step: Step,
        lesson: Lesson,
        alignments: Tensor | None = None,
        given: Lesson | None = None,
    ) -> Look:
        """The forward pass, and the weights."""
        first = look_or_lighter if task.micro_batch is None else look_first
        found = first(task, self.student, step, lesson, alignments, given)
        self._require_finite(task, found)
        return found

    def _require_finite(self, task: Task, found: Look) -> None:
        lesson, losses, weights = found.lesson, found.seen.losses.detach(), found.weights
        if self._checked and losses.device.type != "cpu":  # at the first step: a GPU waits
            return
        if not self._checked:  # on the CPU wherever losses are
            known = counts_of(task.objective, lesson.targets) is not None
            require_targets(lesson, losses, task.objective, known=known)
            require_distributions(lesson.targets, task.objective)
        if hasattr(task.teacher, "weigh") and weights.numel() == len(losses):
            require_finite_weights(weights.detach(), losses, lesson.ids, task.teacher)
        self._checked = True

    def descend(self, task: Task, sight: Look, step: Step, *, again: bool = False) -> Look:
        """The backward pass: leave the gradient of all processes' rows in the parameters."""
        if self._before is not None:
            require_reproducible(task, self._before, sight.lesson, step, sight.seen)
            self._before, self.proven = None, True
        self.view.optimizer.zero_grad(set_to_none=True)
        together = self.processes.size > 1
        if task.micro_batch is not None:
            self._in_parts(task, sight, step)
        elif again and together:  # wrappers see one backward pass a step
            require_no_static_graph(self.student)
            tried_together(self.processes, sight.loss, self.view.params.values())
        else:
            self.descent.backward(sight.loss, self.view.optimizer, again=again)
            if together:  # naming the parameters is not free
                gather(self.processes, self.view.params.values())
        return sight._replace(loss=self.processes.total(sight.loss.detach()))

    def _in_parts(self, task: Task, sight: Look, step: Step) -> None:
        params, total = self.view.params, {}
        with unsummed(self.student):
            for share in shares(task, self.student, step, sight):
                self.view.optimizer.zero_grad(set_to_none=True)
                self.descent.backward(share, self.view.optimizer, again=False)
                found = {k: p.grad for k, p in params.items() if p.grad is not None}
                total = {**found, **plus(total, found)}
        for name, grad in total.items():
            params[name].grad = grad
        leave_sums(self.processes, params.values())

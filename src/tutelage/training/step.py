"""``StudentStep``: the parts of a real step of the student."""

from torch import nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.reduce import all_reduce_backward, sum_wrapper_grads
from tutelage.functional.replay_context import detach
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import counted_rows
from tutelage.precision import autocast_now
from tutelage.randomness import mixed_seed
from tutelage.signals.dots import gradient_alignments
from tutelage.teacher import drop_below_of, reads_rows, uses_alignments
from tutelage.training.forward import ForwardPass, PreparedStep, prepare_step, run_forward
from tutelage.training.micro_batches import backward_micro_batches, forward_without_graph
from tutelage.training.running_loss import RunningLoss
from tutelage.training.skip_rows import forward_or_skip_rows
from tutelage.training.step_checks import StepChecks
from tutelage.training.step_strategy import StepStrategy
from tutelage.training.teacher_buffers import BufferCopies, has_memory, remember, update_buffers
from tutelage.types import Batch, Progress


class StudentStep:
    """Takes real steps of the module as the user gave it: prepare, forward, backward, move.

    Args:
        student: The module as the user gave it, compiled or wrapped.
        problem: The same module, unwrapped, learning under the teacher.
        step_strategy: Runs the backward pass and the optimiser.
        seed: Seed of what the teacher draws and of dropout.
        recomputed: Whether a signal recomputes steps; the first is checked for that.
    """

    def __init__(
        self,
        student: nn.Module,
        problem: BilevelProblem,
        step_strategy: StepStrategy,
        seed: int,
        *,
        recomputed: bool,
    ) -> None:
        self.student = student
        self.view = problem.student
        self.processes = problem.processes
        self.step_strategy = step_strategy
        self.seed = seed
        self.steps = 0
        self.outputs: tuple[int, ...] = ()  # shape of the latest logits of an example
        self.running_loss = RunningLoss(self.view.device)
        self.checks = StepChecks(recomputed=recomputed)
        self._teacher_buffers = BufferCopies()

    def seeded(self, batch: Batch, *kind: int) -> Batch:
        """A batch with the seed and the precision of the present step."""
        seed, now = mixed_seed(self.seed, self.steps, *kind), autocast_now(batch.inputs.device)
        return batch._replace(seed=seed, autocast=now)

    def seeded_held_out(self, batch: Batch) -> Batch:
        """``seeded`` for held-out examples."""
        return self.seeded(batch, 1)

    def prepare(
        self, problem: BilevelProblem, batch: Batch, progress: Progress, *, in_window: bool
    ) -> PreparedStep:
        """Let the teacher prepare the batch; of a step in a window, all is kept."""
        teacher = problem.teacher
        self.checks.copy_start(problem)
        batch = self.seeded(batch)
        if in_window:
            batch = batch._replace(teacher_buffers=self._teacher_buffers.of(teacher))
        read_later = reads_rows(teacher) or has_memory(teacher) or self.checks.recomputes_next
        return prepare_step(problem, batch, progress, keep=in_window or read_later)

    def forward(
        self,
        problem: BilevelProblem,
        prepared_step: PreparedStep,
        held_out: Batch | None = None,
    ) -> ForwardPass:
        """Run the forward pass, weigh the rows and reduce their losses."""
        alignments = None
        if held_out is not None and uses_alignments(problem.teacher):
            prepared, step = prepared_step.prepared, prepared_step.step
            alignments = gradient_alignments(
                problem, prepared, step, self.seeded_held_out(held_out)
            )
        self.checks.require_separate_rows(problem, prepared_step)
        forward = forward_or_skip_rows if drop_below_of(problem.teacher) else run_forward
        if problem.micro_batch is not None:
            forward = forward_without_graph
        forward_pass = forward(problem, self.student, prepared_step, alignments)
        self.checks.require_finite(problem, forward_pass)
        self.outputs = forward_pass.observation.logits.shape[1:]
        return forward_pass

    def backward(
        self, problem: BilevelProblem, forward_pass: ForwardPass, *, retain_graph: bool = False
    ) -> ForwardPass:
        """Leave the gradient, summed over processes, in ``.grad``; the loss is summed, too."""
        self.checks.require_reproducible(problem, forward_pass)
        optimizer, loss = self.view.optimizer, forward_pass.loss
        optimizer.zero_grad(set_to_none=True)
        if problem.micro_batch is not None:
            backward_micro_batches(problem, self.student, forward_pass, self.step_strategy)
        elif retain_graph and self.processes.size > 1:
            all_reduce_backward(self.processes, self.student, loss, self.view.params.values())
        else:
            self.step_strategy.backward(loss, optimizer, retain_graph=retain_graph)
            if self.processes.size > 1:  # naming the parameters is not free
                sum_wrapper_grads(self.processes, self.view.params.values())
        return forward_pass._replace(loss=self.processes.all_reduce(loss.detach()))

    def step_optimizer(self, problem: BilevelProblem, forward_pass: ForwardPass) -> bool:
        """Step the optimiser, which may refuse, and renew the teacher's buffers."""
        moved = self.step_strategy.step(self.view.optimizer)
        teacher, prepared = problem.teacher, forward_pass.prepared
        update_buffers(teacher, forward_pass.step.batch, prepared, forward_pass.written)
        if has_memory(teacher):
            counts = counts_of(problem.objective, prepared.targets)
            remember(teacher, *counted_rows(prepared, detach(forward_pass.observation), counts))
        self.steps += 1
        weight = self.processes.all_reduce(forward_pass.weights.detach().sum())
        self.running_loss.add(forward_pass.loss, weight)
        return moved

"""Teacher steps of signals that use the forward and backward pass of one real step."""

from contextlib import nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import full_tensor, is_sharded
from tutelage.functional.optim import dense
from tutelage.functional.replay_context import clone_rows, detach, write_back
from tutelage.functional.trees import cloned, leaves
from tutelage.losses.objectives import is_row_by_row
from tutelage.per_example import Recorder
from tutelage.signals import OneStep
from tutelage.signals.dots import observe_step
from tutelage.training.end_check import require_same_end
from tutelage.training.forward import (
    ForwardPass,
    PreparedStep,
    StepResult,
    apply_weights,
    step_result,
)
from tutelage.training.step import StudentStep
from tutelage.training.teacher_update import TeacherUpdater
from tutelage.training.window_buffer import Pending
from tutelage.types import (
    Batch,
    HeldOutLoss,
    Params,
    Progress,
    Step,
    StepObservation,
    StudentState,
    Window,
)


class OneStepUpdater:
    """Takes student steps whose own passes a ``OneStep`` signal uses, and the teacher's steps.

    Passes are recorded, a teacher step may wait for the next step's loss (``pending``), and a
    student step may be tentative (``takes_tentative_step``).
    """

    def __init__(
        self, problem: BilevelProblem, student_step: StudentStep, updater: TeacherUpdater
    ) -> None:
        self.problem = problem
        self.student_step = student_step
        self.updater = updater
        signal, module = updater.signal, problem.student.module
        layer = signal.recorded_layer(problem) if isinstance(signal, OneStep) else None
        alone = layer is not None
        self.recorder = Recorder(module, layers=[layer] if alone else None, exact=alone)
        self.pending: Pending | None = None

    def observed_passes(
        self, prepared_step: PreparedStep
    ) -> tuple[ForwardPass, StepObservation]:
        """Run forward and backward pass, recorded where the signal reads them."""
        problem, student_step = self.problem, self.student_step
        prepared, original = prepared_step.prepared, prepared_step.rows
        if self.updater.uses_next_step_loss:
            # what is recorded until the next step must not lie in memory that a loader reuses
            prepared_step = prepared_step._replace(rows=clone_rows(original))
        recording = self.recorder.record(len(prepared.ids), verified=True)
        with recording if self._records() else nullcontext() as recorded:
            forward_pass = student_step.forward(problem, prepared_step)
            if prepared_step.rows is not original:
                write_back(prepared_step.rows, original)
            if recorded is not None:
                known = is_row_by_row(problem.objective)
                recorded.verify(forward_pass.observation.losses, row_by_row=known)
            forward_pass = student_step.backward(
                problem, forward_pass, retain_graph=self.updater.signal.takes_tentative_step
            )
        observation = detach(forward_pass.observation)
        return forward_pass, StepObservation(prepared, observation, recorded)

    def step_after_tentative_one(
        self, batch: Batch, progress: Progress, held_out: Batch
    ) -> StepResult:
        """Let the teacher learn from a tentative step; take the real one by its new weights."""
        problem, buffers = self.problem, cloned(self.problem.student.state().buffers)
        prepared_step = self.student_step.prepare(problem, batch, progress, in_window=True)
        forward_pass, observed = self.observed_passes(prepared_step)
        forward_pass = forward_pass.with_settings(problem)
        step, checked = forward_pass.step, self.updater.costly_checks
        window = tentative_window(problem, step, observed, buffers)
        held_out_loss = self._learn(window, held_out, self.updater.params)
        forward_pass = apply_weights(
            problem, step, forward_pass.prepared, forward_pass.observation
        )
        forward_pass = self.student_step.backward(problem, forward_pass)
        again, student = None, problem.student
        if checked:
            before = cloned(student.state().params)
            again = tentative_window(problem, step, observed, buffers)
            again = replace(again, start=again.start and again.start._replace(params=before))
        moved = self.student_step.step_optimizer(problem, forward_pass)
        if again is not None and moved:
            require_same_end(replace(again, end=student.state()), again.end)
        return step_result(forward_pass, held_out_loss)

    def _records(self) -> bool:
        # whether per-example gradients can be read off a real step's passes
        problem, signal = self.problem, self.updater.signal
        whole = problem.micro_batch is None and not is_sharded(problem.student.module)
        known = whole and not self.student_step.step_strategy.scales
        return known and isinstance(signal, OneStep) and signal.records(problem)

    def finish_pending(self, forward_pass: ForwardPass) -> Tensor:
        """Take the teacher step that waits for the loss of this step."""
        assert self.pending is not None
        problem, ((window, teacher_params), self.pending) = self.problem, (self.pending, None)
        loss, gradient = forward_pass.loss.detach(), problem.student.gradient()
        window = replace(window, held_out_loss=HeldOutLoss(loss, gradient, {}))
        start, step = window.start, window.steps[-1]
        if window.observed is None and start is not None:  # training was resumed in between
            if self._records():
                observed = recompute_step(problem, self.recorder, teacher_params, start, step)
            else:
                observed = observe_step(problem, teacher_params, start, step)
            window = replace(window, observed=observed)
        return self._learn(window, forward_pass.step.batch, leaves(teacher_params))

    def _learn(self, window: Window, held_out: Batch, teacher_params: Params) -> Tensor:
        self.student_step.running_loss.warn_of_weightless_steps()
        held_out = self.student_step.seeded_held_out(held_out)
        return self.updater.learn(self.problem, window, held_out, teacher_params)


def tentative_window(
    problem: BilevelProblem, step: Step, observed: StepObservation, buffers: Params
) -> Window:
    """The window of a step before ``optimizer.step()``, its end by the optimiser's rule."""
    state = problem.student.state()
    params = problem.student.params
    grads = {
        k: full_tensor(dense(g)) for k in step.settings if (g := params[k].grad) is not None
    }
    with torch.no_grad():
        end = problem.rule.update(state, grads, step.settings)
    start = state._replace(buffers=buffers)
    return Window(start, (step,), end, observed, gradient=grads)


def recompute_step(
    problem: BilevelProblem,
    recorder: Recorder,
    teacher_params: Params,
    start: StudentState,
    step: Step,
) -> StepObservation:
    """Run a past step once more, recorded, from the state before it."""
    theta = leaves(start.params)
    with torch.no_grad():
        prepared = problem.prepare(teacher_params, step.batch)
    with recorder.record(len(prepared.ids), theta, verified=True) as recorded:
        observation, _ = problem.observe(start._replace(params=theta), prepared, step)
        recorded.verify(observation.losses)
        weights = problem.weights(teacher_params, prepared, observation, step.batch.seed)
        loss = problem.reduce(observation.losses, weights, prepared)
        torch.autograd.grad(loss, list(theta.values()), allow_unused=True)
    return StepObservation(prepared, detach(observation), recorded)

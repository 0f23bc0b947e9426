"""``Tutor``: ordinary student steps, and a teacher step every few of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim import Optimizer

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.groups import Processes, processes_of
from tutelage.functional.differentiable import require_learnable
from tutelage.functional.optim import rule_for
from tutelage.functional.portable_state import (
    load_optimizer_state,
    load_state,
    optimizer_state_of,
    state_of,
)
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.signals import OneStep, Signal
from tutelage.teacher import uses_alignments, uses_progress
from tutelage.teachers.plain import Plain
from tutelage.training.cautions import LoopCautions
from tutelage.training.common_statistics import common_statistics
from tutelage.training.forward import StepResult, step_result
from tutelage.training.micro_batches import require_micro_batch
from tutelage.training.one_step import OneStepUpdater
from tutelage.training.plain_state import steps_from_dict, steps_to_dict
from tutelage.training.replay_check import require_no_max_norm
from tutelage.training.step import StudentStep
from tutelage.training.step_strategy import PlainStep, StepStrategy
from tutelage.training.teacher_buffers import memory_of
from tutelage.training.teacher_update import TeacherUpdater
from tutelage.training.window_buffer import WindowBuffer
from tutelage.types import Batch, Progress
from tutelage.validation.shapes import require_batch

PLAIN_STEP = PlainStep()


class Tutor:
    """Trains the user's own module with the user's own optimiser, under a teacher.

    Every student step is an ordinary ``loss.backward(); optimizer.step()`` on the weighted
    loss. Every ``teacher_every`` steps the signal estimates the gradient of the held-out loss
    with respect to the teacher, through the last ``signal.steps`` of them, and the teacher's
    optimiser takes a step.

    A tutor logs a warning, once, of few teacher steps, missing classes and other channels
    (``cautions = None``: it does not), and of gradients that are not finite, with their ids.

    Args:
        student: The module to train; never edited or copied.
        optimizer: The student's optimiser, from ``torch.optim``.
        teacher: See ``tutelage.Teacher``.
        teacher_optimizer: The teacher's optimiser. None: the teacher is fixed, such as a stored
            commentary or a baseline.
        signal: Estimates the teacher's gradient; needed if and only if it has an optimiser.
        teacher_every: Student steps between two estimates.
        aggregate: Estimates that are averaged into one teacher step.
        total_steps: Student steps of the whole run; needed by teachers that use progress.
        objective: Logits [L, C] and targets to losses [L]; see ``tutelage.losses``.
        metric: Loss of held-out examples, such as ``objectives.expected_error``; the objective
            if None. Unused with ``evaluate_on`` other than "held-out".
        seed: Seed of what the teacher draws and of dropout.
        step_strategy: Runs the backward pass and the optimiser, with clipping, loss scaling, or
            a framework's own calls; see ``tutelage.training.StepStrategy``.
        processes: Those that train the student together, each on rows of its own; None: those
            of ``DistributedDataParallel`` or ``fully_shard``.
        micro_batch: Rows of a forward pass (gradient accumulation), which bounds the memory of
            steps outside the signal's window; None: all. Weights and loss are those of the
            whole batch; batch normalisation sees a micro-batch. Other students and objectives
            whose rows depend on one another (attention over the batch, pairs) are refused at
            the first step, by comparing the losses of a micro-batch with those of its halves.

    Raises:
        ValueError: If ``signal.steps`` exceeds ``teacher_every``, only one of signal and
            teacher optimiser is given, the teacher has no parameters, ``aggregate`` is below 1,
            ``total_steps`` is missing or below 1, a teacher that uses alignments has a signal,
            or ``micro_batch`` cannot be combined with the rest.
    """

    def __init__(
        self,
        student: nn.Module,
        optimizer: Optimizer,
        teacher: nn.Module,
        teacher_optimizer: Optimizer | None = None,
        *,
        signal: Signal | None = None,
        teacher_every: int = 1,
        aggregate: int = 1,
        total_steps: int | None = None,
        objective: Objective = cross_entropy,
        metric: Objective | None = None,
        seed: int = 0,
        step_strategy: StepStrategy = PLAIN_STEP,
        processes: Processes | None = None,
        micro_batch: int | None = None,
    ) -> None:
        if (signal is None) != (teacher_optimizer is None):
            raise ValueError("Give both signal and teacher_optimizer, or neither.")
        if total_steps is not None and total_steps < 1:
            raise ValueError(f"total_steps must be at least 1, got {total_steps}.")
        if total_steps is None and uses_progress(teacher):
            raise ValueError(
                f"{type(teacher).__name__} depends on how far training has come: "
                "give total_steps, the number of student steps of the whole run."
            )
        self.student = student
        self.optimizer = optimizer
        self.teacher = teacher
        if signal is not None and uses_alignments(teacher):
            raise ValueError(
                f"{type(teacher).__name__} weighs by the held-out gradient of each real step, "
                "which a signal cannot recompute: leave out signal."
            )
        updater: TeacherUpdater | None = None
        if signal is not None and teacher_optimizer is not None:
            updater = TeacherUpdater(
                teacher, signal, teacher_optimizer, teacher_every, aggregate
            )
            rule_for(optimizer)  # refuses optimisers that cannot be differentiated
        self.teacher_updater = updater
        self.total_steps = total_steps
        self.seed = seed
        self.step_strategy = step_strategy
        self.processes = processes_of(student) if processes is None else processes
        view = StudentView(student, optimizer)
        self.problem = problem = BilevelProblem(
            view,
            teacher,
            objective,
            metric,
            step_strategy.max_norm,
            self.processes,
            micro_batch,
        )
        require_micro_batch(problem, student)
        if signal is not None:
            signal.check(problem)
        recomputed = signal is not None or uses_alignments(teacher)
        if recomputed:
            require_no_max_norm(view.module)
        self.best_accuracy = 0.0
        self.cautions = updater and LoopCautions(updater, total_steps, problem)
        self._student_step = StudentStep(
            student, problem, step_strategy, seed, recomputed=recomputed
        )
        self._window = WindowBuffer()
        self._one_step = updater and OneStepUpdater(problem, self._student_step, updater)

    @property
    def steps(self) -> int:
        """Student steps taken so far."""
        return self._student_step.steps

    @steps.setter
    def steps(self, taken: int) -> None:
        self._student_step.steps = taken

    @property
    def wants_held_out(self) -> bool:
        """Whether the next step needs a held-out batch."""
        updater = self.teacher_updater
        if updater is None:
            return uses_alignments(self.teacher)
        return updater.due(self.steps) and not updater.uses_next_step_loss

    @property
    def skipped_teacher_steps(self) -> int:
        """Teacher steps skipped because their gradient was not finite."""
        return 0 if self.teacher_updater is None else self.teacher_updater.skipped

    @property
    def awaits_next_step(self) -> bool:
        """Whether a teacher step waits for the loss of the next student step."""
        return self._one_step is not None and self._one_step.pending is not None

    @property
    def progress(self) -> Progress:
        """How far the student's training has come."""
        fraction = 0.0 if self.total_steps is None else self.steps / self.total_steps
        mean = 0.0
        if uses_progress(self.teacher):  # reading the mean loss waits for the device
            mean = self._student_step.running_loss.mean_loss(self.steps)
        return Progress(fraction, mean, self.best_accuracy, memory_of(self.teacher))

    def step(self, batch: Batch, held_out: Batch | None = None) -> StepResult:
        """Take one student step, and a teacher step where one is due.

        Args:
            batch: B training examples.
            held_out: Examples for the held-out loss; needed where ``wants_held_out``.

        Returns:
            Losses, weights and held-out loss of the step.

        Raises:
            ValueError: If a held-out batch is due and none came, gradients are switched off, or
                a batch was made under ``torch.inference_mode``.
        """
        if self.wants_held_out and held_out is None:
            raise ValueError(
                "The teacher needs held-out examples at this step: give held_out (see "
                "Tutor.wants_held_out)."
            )
        if self.processes.size == 1:
            return self._step(batch, held_out)
        with common_statistics(self.problem, self.student):
            return self._step(batch, held_out)

    def _step(self, batch: Batch, held_out: Batch | None) -> StepResult:
        batch = self._checked("batch", batch)
        held_out = self._checked("held_out", held_out) if self.wants_held_out else None
        if self.cautions is not None:
            self.cautions.note(self.steps, batch, held_out, self._student_step.outputs)
        one_step = self._one_step
        if one_step is None or not one_step.updater.in_window(self.steps):
            return self._step_outside_window(one_step, batch, held_out)
        if one_step.updater.signal.takes_tentative_step:
            assert held_out is not None
            return one_step.step_after_tentative_one(batch, self.progress, held_out)
        return self._step_in_window(one_step, batch, held_out)

    def _step_outside_window(
        self, one_step: OneStepUpdater | None, batch: Batch, held_out: Batch | None
    ) -> StepResult:
        problem, student_step, held_out_loss = self.problem, self._student_step, None
        if one_step is not None and one_step.updater.signal.evaluate_on == "plain":
            problem = replace(problem, teacher=Plain())
        prepared_step = student_step.prepare(problem, batch, self.progress, in_window=False)
        forward_pass = student_step.forward(problem, prepared_step, held_out)
        forward_pass = student_step.backward(problem, forward_pass)
        if one_step is not None and one_step.pending is not None:
            held_out_loss = one_step.finish_pending(forward_pass)
        student_step.step_optimizer(problem, forward_pass)
        return step_result(forward_pass, held_out_loss)

    def _step_in_window(
        self, one_step: OneStepUpdater, batch: Batch, held_out: Batch | None
    ) -> StepResult:
        problem, student_step, window = self.problem, self._student_step, self._window
        updater, observed, held_out_loss = one_step.updater, None, None
        if not window.steps or updater.signal.steps == 1:
            window.begin(updater.signal, problem.student)
        teacher_params = updater.params_of_step()
        prepared_step = student_step.prepare(problem, batch, self.progress, in_window=True)
        if isinstance(updater.signal, OneStep):
            forward_pass, observed = one_step.observed_passes(prepared_step)
        else:
            forward_pass = student_step.forward(problem, prepared_step)
            forward_pass = student_step.backward(problem, forward_pass)
        forward_pass = forward_pass.with_settings(problem)
        window.extend_start(forward_pass.step, problem.student)
        if one_step.pending is not None:
            held_out_loss = one_step.finish_pending(forward_pass)
        due, moved = updater.due(self.steps), student_step.step_optimizer(problem, forward_pass)
        if moved:
            window.steps.append(forward_pass.step)
        if due and not moved:  # the scaled gradient overflowed
            window.clear()
            updater.skipped += 1
        elif due and updater.uses_next_step_loss:
            one_step.pending = window.take_window(problem.student, observed), teacher_params
        elif due:
            assert held_out is not None
            student_step.running_loss.warn_of_weightless_steps()
            steps = window.take_window(problem.student, observed)
            held_out = student_step.seeded_held_out(held_out)
            held_out_loss = updater.learn(problem, steps, held_out, teacher_params)
        return step_result(forward_pass, held_out_loss)

    def _checked(self, name: str, batch: Batch | None) -> Batch:
        assert batch is not None
        batch = require_batch(name, batch, empty=self.processes.size > 1)
        require_learnable(name, batch)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The state of the training run, for an exact resume.

        Returns:
            Plain dictionaries, lists, numbers and tensors, as ``torch.load`` reads safely,
            under the names that a student has before it is compiled or wrapped.
        """
        updater, pending = self.teacher_updater, self._one_step and self._one_step.pending
        return {
            "student": state_of(self.student),
            "optimizer": optimizer_state_of(self.optimizer, self.student),
            "teacher": state_of(self.teacher),
            "teacher_updater": {} if updater is None else updater.state_dict(),
            "steps": self.steps,
            "best_accuracy": self.best_accuracy,
            **self._student_step.running_loss.state_dict(),
            **steps_to_dict(self._window, pending, self.problem.student.module),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state of ``state_dict``.

        Args:
            state: That state, on any device.
        """
        load_state(self.student, state["student"], "student")
        load_optimizer_state(self.optimizer, state["optimizer"])
        load_state(self.teacher, state["teacher"], "teacher")
        if self.teacher_updater is not None:
            self.teacher_updater.load_state_dict(state["teacher_updater"])
        self.steps = state["steps"]
        self.best_accuracy = state["best_accuracy"]
        self._student_step.running_loss.load_state_dict(state)
        self._window, pending = steps_from_dict(state, self.problem.student)
        if self._one_step is not None:
            self._one_step.pending = pending

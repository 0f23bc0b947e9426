"""``Tutor``: ordinary student steps, and a teacher step every few of them."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.groups import Processes, processes_of
from tutelage.functional.differentiable import require_learnable
from tutelage.functional.optim import rule_for
from tutelage.functional.portable_state import (
    load_optimizer_state,
    load_state,
    names_in,
    optimizer_state_of,
    plain_names,
    state_of,
)
from tutelage.functional.replay_context import clone_rows, detach, write_back
from tutelage.functional.student import StudentView
from tutelage.functional.trees import cloned, leaves
from tutelage.losses.objectives import Objective, cross_entropy, is_row_by_row
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import counted_rows
from tutelage.per_example import Recorder
from tutelage.precision import autocast_now
from tutelage.randomness import mixed_seed
from tutelage.signals import Signal
from tutelage.signals.dots import observe_step
from tutelage.teacher import reads_rows, uses_alignments, uses_progress
from tutelage.teachers.plain import Plain
from tutelage.training.end_check import require_same_end
from tutelage.training.forward import (
    ForwardPass,
    Record,
    apply_weights,
    current_settings,
    gradient_alignments,
    prepare_step,
    step_record,
)
from tutelage.training.micro_batches import require_micro_batch
from tutelage.training.one_step import recompute_step, tentative_window
from tutelage.training.plain_state import renamed_steps
from tutelage.training.replay_check import require_no_norm
from tutelage.training.running_loss import RunningLoss
from tutelage.training.step import StudentStep
from tutelage.training.step_strategy import PlainStep, StepStrategy
from tutelage.training.teacher_buffers import (
    BufferCopies,
    has_memory,
    memory_of,
    remember,
    update_buffers,
)
from tutelage.training.teacher_update import TeacherUpdater
from tutelage.training.window_buffer import WindowBuffer
from tutelage.types import Batch, Params, Progress, Step, StepObservation, Window
from tutelage.validation.shapes import require_batch

PLAIN_STEP = PlainStep()


class Tutor:
    """Trains the user's own module with the user's own optimiser, under a teacher.

    Every student step is an ordinary ``loss.backward(); optimizer.step()`` on the weighted
    loss. Every ``teacher_every`` steps the signal estimates the gradient of the held-out loss
    with respect to the teacher, through the last ``signal.steps`` of them, and the teacher's
    optimiser takes a step.

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
        seed: Seed of lessons and of dropout.
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
        self.teacher_updater: TeacherUpdater | None = None
        if signal is not None and teacher_optimizer is not None:
            self.teacher_updater = TeacherUpdater(
                teacher, signal, teacher_optimizer, teacher_every, aggregate
            )
            rule_for(optimizer)  # refuses optimisers that cannot be differentiated
        self.total_steps = total_steps
        self.seed = seed
        self.step_strategy = step_strategy
        self.processes = processes_of(student) if processes is None else processes
        view = StudentView(student, optimizer)
        self.problem = BilevelProblem(
            view,
            teacher,
            objective,
            metric,
            step_strategy.max_norm,
            self.processes,
            micro_batch,
        )
        tries = self.teacher_updater is not None and self.teacher_updater.recomputes_step
        product = getattr(signal, "product", None)
        require_micro_batch(self.problem, student, tries=tries, product=product)
        recomputed = signal is not None or uses_alignments(teacher)
        if recomputed:
            require_no_norm(view.module)
        self.steps = 0
        self.best_accuracy = 0.0
        self._running_loss = RunningLoss(view.device)
        self._student_step = StudentStep(
            student, view, step_strategy, self.processes, reproducible=not recomputed
        )
        self._recorder = Recorder(view.module)
        self._window = WindowBuffer()
        self._buffers = BufferCopies()

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
        return self._window.pending is not None

    @property
    def progress(self) -> Progress:
        """How far the student's training has come."""
        fraction = 0.0 if self.total_steps is None else self.steps / self.total_steps
        mean = 0.0
        if uses_progress(self.teacher):  # reading the mean loss waits for the device
            mean = self._running_loss.mean_loss(self.steps)
        return Progress(fraction, mean, self.best_accuracy, memory_of(self.teacher))

    def step(self, batch: Batch, held_out: Batch | None = None) -> Record:
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
        batch = self._checked("batch", batch)
        if self.wants_held_out and held_out is not None:
            held_out = self._checked("held_out", held_out)
        now = autocast_now(batch.inputs.device)
        batch = batch._replace(seed=mixed_seed(self.seed, self.steps), autocast=now)
        self._student_step.begin(self.problem.objective)
        updater = self.teacher_updater
        if updater is None or not updater.in_window(self.steps):
            return self._step_outside_window(batch, held_out)
        batch = batch._replace(teacher_buffers=self._buffers.of(self.teacher))
        if updater.recomputes_step:
            assert held_out is not None
            return self._step_after_trial(updater, batch, held_out)
        return self._step_in_window(updater, batch, held_out)

    def _step_outside_window(self, batch: Batch, held_out: Batch | None) -> Record:
        problem, student_step = self.problem, self._student_step
        if self.teacher_updater is not None and self.teacher_updater.untaught_between:
            problem = replace(problem, teacher=Plain())
        teacher = problem.teacher
        keep = reads_rows(teacher) or has_memory(teacher) or not student_step.reproducible
        step, lesson, student_lesson = prepare_step(problem, batch, self.progress, keep=keep)
        alignments = None
        if uses_alignments(teacher) and held_out is not None:
            alignments = gradient_alignments(problem, lesson, step, self._seeded(held_out))
        forward_pass = student_step.run_forward(
            problem, step, lesson, alignments, student_lesson
        )
        forward_pass = student_step.run_backward(problem, forward_pass, step)
        held_out_loss = self._finish_pending(forward_pass.loss, batch)
        self._optimizer_step(problem, forward_pass, step)
        return step_record(forward_pass, held_out_loss)

    def _step_in_window(
        self, updater: TeacherUpdater, batch: Batch, held_out: Batch | None
    ) -> Record:
        window, student = self._window, self.problem.student
        teacher = updater.params
        if updater.uses_next_step_loss:  # the teacher is updated before the next step's loss
            teacher = cloned(teacher)
        if not window.steps:
            window.begin(updater.signal, student)
        due = updater.due(self.steps)
        forward_pass, step, observed = self._observed_passes(updater, batch, record=due)
        window.extend_start(step, student)
        held_out_loss = self._finish_pending(forward_pass.loss, batch)
        moved = self._optimizer_step(self.problem, forward_pass, step)
        if moved:
            window.steps.append(step)
        if due and not moved:  # the scaled gradient overflowed
            window.clear()
            updater.skipped += 1
        elif due:
            steps = window.pop(student, observed if updater.one_step else None)
            if updater.uses_next_step_loss:
                window.pending = steps, teacher
            else:
                assert held_out is not None
                held_out_loss = self._teacher_step(updater, steps, held_out, teacher)
        return step_record(forward_pass, held_out_loss)

    def _step_after_trial(
        self, updater: TeacherUpdater, batch: Batch, held_out: Batch
    ) -> Record:
        # the teacher learns from a tentative step; the real one is taken with its new weights
        problem, buffers = self.problem, cloned(self.problem.student.state().buffers)
        forward_pass, step, observed = self._observed_passes(updater, batch, record=True)
        window = tentative_window(problem, step, observed, buffers)
        checked = updater.checks_by_pass
        held_out_loss = self._teacher_step(updater, window, held_out, updater.params)
        forward_pass = apply_weights(
            problem, step.batch, forward_pass.lesson, forward_pass.observation
        )
        forward_pass = self._student_step.run_backward(problem, forward_pass, step)
        again, student = None, problem.student
        if checked:
            before = cloned(student.state().params)
            again = tentative_window(problem, step, observed, buffers)
            again = replace(again, start=again.start and again.start._replace(params=before))
        moved = self._optimizer_step(problem, forward_pass, step)
        if again is not None and moved:
            require_same_end(replace(again, end=student.state()), again.end)
        return step_record(forward_pass, held_out_loss)

    def _observed_passes(
        self, updater: TeacherUpdater, batch: Batch, *, record: bool
    ) -> tuple[ForwardPass, Step, StepObservation]:
        problem, student_step = self.problem, self._student_step
        step, lesson, original = prepare_step(problem, batch, self.progress, keep=True)
        # what is recorded until the next step must not lie in memory that a loader reuses
        student_lesson = clone_rows(original) if updater.uses_next_step_loss else original
        record = record and updater.records(problem) and student_step.records_rows(problem)
        recording = self._recorder.record(len(lesson.ids), verified=True)
        with recording if record else nullcontext() as recorded:
            forward_pass = student_step.run_forward(
                problem, step, lesson, student_lesson=student_lesson
            )
            if student_lesson is not original:
                write_back(student_lesson, original)
            if recorded is not None:
                known = is_row_by_row(problem.objective)
                recorded.verify(forward_pass.observation.losses, row_by_row=known)
            forward_pass = student_step.run_backward(
                problem, forward_pass, step, retain_graph=updater.recomputes_step
            )
        step = step._replace(settings=current_settings(problem))
        observation = detach(forward_pass.observation)
        return forward_pass, step, StepObservation(lesson, observation, recorded)

    def _optimizer_step(
        self, problem: BilevelProblem, forward_pass: ForwardPass, step: Step
    ) -> bool:
        moved = self.step_strategy.step(self.optimizer)
        teacher, lesson = problem.teacher, forward_pass.lesson
        update_buffers(teacher, step.batch, lesson, forward_pass.teacher_buffers or {})
        if has_memory(teacher):
            counts = counts_of(problem.objective, lesson.targets)
            observation = detach(forward_pass.observation)
            remember(teacher, *counted_rows(lesson, observation, counts))
        self.steps += 1
        weight = self.processes.all_reduce(forward_pass.weights.detach().sum())
        self._running_loss.add(forward_pass.loss, weight)
        return moved

    def _finish_pending(self, loss: Tensor, batch: Batch) -> Tensor | None:
        # the teacher step of an earlier window whose held-out loss is this step's own
        updater, problem = self.teacher_updater, self.problem
        if self._window.pending is None or updater is None:
            return None
        window, teacher = self._window.pop_pending(loss.detach(), problem.student.gradient())
        start, step = window.start, window.steps[-1]
        if window.observed is None and start is not None:  # training was resumed in between
            if updater.records(problem) and self._student_step.records_rows(problem):
                observed = recompute_step(problem, self._recorder, teacher, start, step)
            else:
                observed = observe_step(problem, teacher, start, step)
            window = replace(window, observed=observed)
        return self._teacher_step(updater, window, batch, leaves(teacher))

    def _teacher_step(
        self, updater: TeacherUpdater, window: Window, held_out: Batch, teacher: Params
    ) -> Tensor:
        self._running_loss.warn_of_weightless_steps()
        return updater.learn(self.problem, window, self._seeded(held_out), teacher)

    def _checked(self, name: str, batch: Batch) -> Batch:
        batch = require_batch(name, batch, empty=self.processes.size > 1)
        require_learnable(name, batch)
        return batch

    def _seeded(self, held_out: Batch) -> Batch:
        seed, now = mixed_seed(self.seed, self.steps, 1), autocast_now(held_out.inputs.device)
        return held_out._replace(seed=seed, autocast=now)

    def state_dict(self) -> dict[str, Any]:
        """The state of the training run, for an exact resume.

        Returns:
            Plain dictionaries, lists, numbers and tensors, as ``torch.load`` reads safely,
            under the names that a student has before it is compiled or wrapped.
        """
        updater, inner = self.teacher_updater, self.problem.student.module
        return {
            "student": state_of(self.student),
            "optimizer": optimizer_state_of(self.optimizer, self.student),
            "teacher": state_of(self.teacher),
            "teacher_updater": {} if updater is None else updater.state_dict(),
            "steps": self.steps,
            "best_accuracy": self.best_accuracy,
            **self._running_loss.state_dict(),
            **renamed_steps(self._window.state_dict(), plain_names(inner)),
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
        self._running_loss.load_state_dict(state)
        student = self.problem.student
        steps = renamed_steps(state, names_in(student.module))
        self._window.load_state_dict(steps, student.state(), student.device)

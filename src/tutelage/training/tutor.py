"""Teaching while a student trains: ordinary student steps, a teacher step now and then."""

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
from tutelage.training.forward import (
    ForwardPass,
    Record,
    apply_weights,
    current_settings,
    gradient_alignments,
    prepare_step,
    recompute_step,
    step_record,
    tentative_window,
)
from tutelage.training.micro_batches import require_micro_batch
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
    loss. Every ``teacher_every`` steps the signal looks back over the last ``signal.steps`` of
    them and the teacher takes a step towards a lower held-out loss.

    Args:
        student: The module to train; never edited or copied.
        optimizer: The student's optimiser, from ``torch.optim``.
        teacher: See ``tutelage.teacher``.
        teacher_optimizer: The teacher's optimiser. None: the teacher stays as it is, as a
            stored commentary or a baseline does.
        signal: How the teacher learns; needed if and only if it has an optimiser.
        teacher_every: Student steps between two looks of the signal.
        aggregate: Looks whose estimates make one teacher step, by their mean.
        total_steps: Student steps of the whole run; needed by teachers that use progress.
        objective: Logits [L, C] and targets to losses [L]; see ``tutelage.losses.objectives``.
        metric: What held-out examples judge by, such as ``objectives.expected_error``; the
            objective if None.
        seed: Where the randomness of lessons and of dropout starts from.
        step_strategy: How a step's gradient comes about and moves the student: clipping, loss
            scaling, or a framework's own ways; see ``tutelage.training.step_strategy``.
        processes: Those that train the student together, each on rows of its own; None: as
            ``DistributedDataParallel`` or ``fully_shard`` have them.
        micro_batch: Rows that the student sees at a time (gradient accumulation), so that a
            step without a look needs the memory of so many; None: all. Weights and loss are
            those of the whole batch; batch normalisation sees a micro-batch.

    Raises:
        ValueError: If the signal looks back further than ``teacher_every`` steps, only one of
            signal and teacher optimiser is given, the teacher has nothing to learn,
            ``aggregate`` is below 1, ``total_steps`` is missing or below 1, a teacher that
            uses alignments should learn, or ``micro_batch`` does not go with the rest.
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
                "which a signal cannot take again: leave signal away."
            )
        self.teacher_updater: TeacherUpdater | None = None
        if signal is not None and teacher_optimizer is not None:
            self.teacher_updater = TeacherUpdater(
                teacher, signal, teacher_optimizer, teacher_every, aggregate
            )
            rule_for(optimizer)  # refuses optimisers that cannot be differentiated
        self.total_steps = total_steps
        self.seed = seed
        view = StudentView(student, optimizer)
        self.step_strategy = step_strategy
        self.processes = processes_of(student) if processes is None else processes
        norm, everywhere = step_strategy.max_norm, self.processes
        self.problem = BilevelProblem(
            view, teacher, objective, metric, norm, everywhere, micro_batch
        )
        tries = self.teacher_updater is not None and self.teacher_updater.recomputes_step
        require_micro_batch(
            self.problem, student, tries=tries, product=getattr(signal, "product", None)
        )
        self.steps = 0
        self.best_accuracy = 0.0
        self._tally = RunningLoss(view.device)
        retaken = signal is not None or uses_alignments(teacher)
        if retaken:
            require_no_norm(view.module)
        self._passes = StudentStep(
            student, view, step_strategy, self.processes, reproducible=not retaken
        )
        self._recorder = Recorder(view.module)
        self._trail = WindowBuffer()
        self._buffers = BufferCopies()

    @property
    def wants_held_out(self) -> bool:
        """Whether the coming step needs a held-out batch, which has to be given."""
        learner = self.teacher_updater
        if learner is None:
            return uses_alignments(self.teacher)
        return learner.due(self.steps) and not learner.uses_next_step_loss

    @property
    def skipped_teacher_steps(self) -> int:
        """Teacher steps left out because their gradient was not finite."""
        return 0 if self.teacher_updater is None else self.teacher_updater.skipped

    @property
    def progress(self) -> Progress:
        """How far the student's training has come."""
        fraction = 0.0 if self.total_steps is None else self.steps / self.total_steps
        mean = 0.0
        if uses_progress(self.teacher):  # reading the mean loss waits for the device
            mean = self._tally.mean_loss(self.steps)
        return Progress(fraction, mean, self.best_accuracy, memory_of(self.teacher))

    def step(self, batch: Batch, held_out: Batch | None = None) -> Record:
        """Take one student step, and a teacher step where one is due.

        Args:
            batch: B training examples.
            held_out: Examples that judge the student; needed where ``wants_held_out``.

        Returns:
            What happened.

        Raises:
            ValueError: If a held-out batch is due and none came, or nothing can be learnt from
                one: it was made, or the step is taken, where gradients are switched off.
        """
        if self.wants_held_out and held_out is None:
            raise ValueError(
                "The teacher needs held-out examples at this step: give held_out (see "
                "Tutor.wants_held_out)."
            )
        batch = self._checked("batch", batch)
        if held_out is not None and self.wants_held_out:
            held_out = self._checked("held_out", held_out)
        now = autocast_now(batch.inputs.device)
        batch = batch._replace(seed=mixed_seed(self.seed, self.steps), autocast=now)
        self._passes.begin()
        learner = self.teacher_updater
        if learner is not None and learner.in_window(self.steps):
            return self._watched(learner, batch, held_out)
        plain = learner is not None and learner.plain_between
        problem = replace(self.problem, teacher=Plain()) if plain else self.problem
        keep = (
            reads_rows(problem.teacher)
            or has_memory(problem.teacher)
            or not self._passes.reproducible
        )
        step, lesson, given = prepare_step(problem, batch, self.progress, keep=keep)
        alignments = None
        if uses_alignments(problem.teacher) and held_out is not None:
            alignments = gradient_alignments(problem, lesson, step, self._judging(held_out))
        forward_pass = self._passes.run_forward(problem, step, lesson, alignments, given)
        forward_pass = self._passes.run_backward(problem, forward_pass, step)
        judged = self._pass_on(forward_pass.loss, batch)
        self._move(problem, forward_pass, step)
        return step_record(forward_pass, judged)

    def _checked(self, name: str, batch: Batch) -> Batch:
        batch = require_batch(name, batch, empty=self.processes.size > 1)
        require_learnable(name, batch)
        return batch

    def _watched(self, learner: TeacherUpdater, batch: Batch, held_out: Batch | None) -> Record:
        due, phi = learner.due(self.steps), learner.params
        if learner.uses_next_step_loss:  # the teacher moves on before this step's turn comes
            phi = cloned(phi)
        if not self._trail.steps and not learner.recomputes_step:
            self._trail.begin(learner.signal, self.problem.student)
        batch = batch._replace(teacher_buffers=self._buffers.of(self.teacher))
        before = cloned(self.problem.student.state().buffers) if learner.recomputes_step else {}
        forward_pass, step, observed = self._see(learner, batch, due=due)
        self._trail.reach(step, self.problem.student)
        judged = self._pass_on(forward_pass.loss, batch)
        if learner.recomputes_step and held_out is not None:
            window = tentative_window(self.problem, step, observed, before)
            judged = self._learn(learner, window, held_out, phi)
            forward_pass = apply_weights(
                self.problem, step.batch, forward_pass.lesson, forward_pass.observation
            )
            forward_pass = self._passes.run_backward(self.problem, forward_pass, step)
        moved = self._move(self.problem, forward_pass, step)
        if learner.recomputes_step:
            return step_record(forward_pass, judged)
        if moved:
            self._trail.steps.append(step)
        if due and moved:
            judged = self._look_back(learner, observed, held_out, phi, judged)
        elif due:  # there is nothing to judge
            self._trail.forget()
            learner.skipped += 1
        return step_record(forward_pass, judged)

    def _see(
        self, learner: TeacherUpdater, batch: Batch, *, due: bool
    ) -> tuple[ForwardPass, Step, StepObservation]:
        problem, passes = self.problem, self._passes
        step, lesson, theirs = prepare_step(problem, batch, self.progress, keep=True)
        # what is recorded until the next step must not lie in memory that a loop fills again
        given = clone_rows(theirs) if learner.uses_next_step_loss else theirs
        recorder, rows = self._recorder, len(lesson.ids)
        recording = due and learner.records(problem) and passes.records_rows(problem)
        with recorder.record(rows, verified=True) if recording else nullcontext() as recorded:
            forward_pass = passes.run_forward(problem, step, lesson, given=given)
            if given is not theirs:
                write_back(given, theirs)
            if recorded is not None:
                known = is_row_by_row(problem.objective)
                recorded.verify(forward_pass.observation.losses, row_by_row=known)
            forward_pass = passes.run_backward(
                problem, forward_pass, step, again=learner.recomputes_step
            )
        step = step._replace(settings=current_settings(problem))
        return (
            forward_pass,
            step,
            StepObservation(lesson, detach(forward_pass.observation), recorded),
        )

    def _move(self, problem: BilevelProblem, forward_pass: ForwardPass, step: Step) -> bool:
        moved = self.step_strategy.step(self.optimizer)
        written = forward_pass.teacher_buffers or {}
        update_buffers(problem.teacher, step.batch, forward_pass.lesson, written)
        if has_memory(problem.teacher):
            counts = counts_of(problem.objective, forward_pass.lesson.targets)
            remember(
                problem.teacher,
                *counted_rows(forward_pass.lesson, detach(forward_pass.observation), counts),
            )
        self.steps += 1
        self._tally.add(
            forward_pass.loss, self.processes.all_reduce(forward_pass.weights.detach().sum())
        )
        return moved

    def _look_back(
        self,
        learner: TeacherUpdater,
        observed: StepObservation,
        held_out: Batch | None,
        phi: Params,
        judged: Tensor | None,
    ) -> Tensor | None:
        observation = observed if learner.one_step is not None else None
        window = self._trail.window(self.problem.student, observation)
        if learner.uses_next_step_loss:
            self._trail.waiting = window, phi
        elif held_out is not None:
            return self._learn(learner, window, held_out, phi)
        return judged

    def _pass_on(self, loss: Tensor, batch: Batch) -> Tensor | None:
        if self._trail.waiting is None or self.teacher_updater is None:
            return None
        window, phi = self._trail.judged(loss.detach(), self.problem.student.gradient())
        start, step = window.start, window.steps[-1]
        if window.observed is None and start is not None:  # training was resumed in between
            if self.teacher_updater.records(self.problem) and self._passes.records_rows(
                self.problem
            ):
                again = recompute_step(self.problem, self._recorder, phi, start, step)
            else:
                again = observe_step(self.problem, phi, start, step)
            window = replace(window, observed=again)
        return self._learn(self.teacher_updater, window, batch, leaves(phi))

    def _learn(
        self, learner: TeacherUpdater, window: Window, held_out: Batch, phi: Params
    ) -> Tensor:
        self._tally.warn_of_weightless_steps()
        return learner.learn(self.problem, window, self._judging(held_out), phi)

    def _judging(self, held_out: Batch) -> Batch:
        seed, now = mixed_seed(self.seed, self.steps, 1), autocast_now(held_out.inputs.device)
        return held_out._replace(seed=seed, autocast=now)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly where training stands.

        Returns:
            Plain dictionaries, lists, numbers and tensors, as ``torch.load`` reads safely,
            under the names that a student has before it is compiled or wrapped.
        """
        return {
            "student": state_of(self.student),
            "optimizer": optimizer_state_of(self.optimizer, self.student),
            "teacher": state_of(self.teacher),
            "learner": {}
            if self.teacher_updater is None
            else self.teacher_updater.state_dict(),
            "steps": self.steps,
            "best_accuracy": self.best_accuracy,
            **self._tally.state_dict(),
            **renamed_steps(self._trail.state_dict(), plain_names(self.problem.student.module)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that ``state_dict`` gave.

        Args:
            state: That state, on any device.
        """
        load_state(self.student, state["student"], "student")
        load_optimizer_state(self.optimizer, state["optimizer"])
        load_state(self.teacher, state["teacher"], "teacher")
        if self.teacher_updater is not None:
            self.teacher_updater.load_state_dict(state["learner"])
        self.steps = state["steps"]
        self.best_accuracy = state["best_accuracy"]
        self._tally.load_state_dict(state)
        student = self.problem.student
        steps = renamed_steps(state, names_in(student.module))
        self._trail.load_state_dict(steps, student.state(), student.device)

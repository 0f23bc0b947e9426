"""Teaching while a student trains: ordinary student steps, a teacher step now and then."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.differentiable import compiled_parts, require_learnable
from tutelage.errors import UnsupportedStudentError
from tutelage.objectives import cross_entropy
from tutelage.precision import FULL, autocast_now, autocast_to
from tutelage.randomness import mixed_seed
from tutelage.records import Batch, Lesson, Observation, Progress, Step, Window
from tutelage.records import StudentState as State
from tutelage.rules import rule_for, settings_of
from tutelage.signals import Signal
from tutelage.student import StudentView, tapped
from tutelage.task import Objective, Task, as_taken, require_same_numbers
from tutelage.teaching import is_deep, prepare, taps_of, uses_progress
from tutelage.trees import detached, is_finite


class Record(NamedTuple):
    """What happened in one student step."""

    loss: Tensor
    """scalar: the loss the student descended"""
    losses: Tensor
    """[L] per row of the lesson, unweighted"""
    weights: Tensor
    """[L] the teacher's weights, before normalisation"""
    ids: Tensor
    """[L] which examples these rows came from"""
    held_out_loss: Tensor | None
    """scalar where the teacher took a step too, else None"""


class Tutor:
    """Trains the user's own module with the user's own optimiser, under a teacher.

    Every student step is an ordinary ``loss.backward(); optimizer.step()`` on the weighted
    loss. Every ``teacher_every`` steps the signal looks back over the last ``signal.steps`` of
    them and the teacher takes a step towards a lower held-out loss.

    Args:
        student: The module to train; never edited or copied.
        optimizer: The student's optimiser, from ``torch.optim``.
        teacher: See ``tutelage.teaching``.
        teacher_optimizer: The teacher's optimiser. None: the teacher stays as it is, as a
            stored commentary or a baseline does.
        signal: How the teacher learns; needed if and only if it has an optimiser.
        teacher_every: Student steps between two teacher steps.
        total_steps: Student steps of the whole run; needed by teachers that use progress.
        objective: Logits [L, C] and targets to losses [L].
        seed: Where the randomness of lessons and of dropout starts from.

    Raises:
        ValueError: If the signal looks back further than ``teacher_every`` steps, only one of
            signal and teacher optimiser is given, the teacher has nothing to learn, or
            ``total_steps`` is missing or below 1.
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
        total_steps: int | None = None,
        objective: Objective = cross_entropy,
        seed: int = 0,
    ) -> None:
        if (signal is None) != (teacher_optimizer is None):
            raise ValueError("Give both signal and teacher_optimizer, or neither.")
        if signal is not None and not 1 <= signal.steps <= teacher_every:
            raise ValueError(
                f"The signal looks back over {signal.steps} steps, but teacher_every is "
                f"{teacher_every}: give teacher_every={signal.steps} or more."
            )
        if signal is not None and not any(p.requires_grad for p in teacher.parameters()):
            raise ValueError(
                f"{type(teacher).__name__} has no parameter to learn: leave signal and "
                "teacher_optimizer away."
            )
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
        self.teacher_optimizer = teacher_optimizer
        self.signal = signal
        self.teacher_every = teacher_every
        self.total_steps = total_steps
        self.seed = seed
        view = StudentView(student, optimizer)
        if signal is not None:
            rule_for(optimizer)  # refuses optimisers that cannot be differentiated
        self.task = Task(view, teacher, objective)
        self.steps = 0
        self.best_accuracy = 0.0
        self.skipped_teacher_steps = 0
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=view.device)
        self._weightless = torch.zeros((), dtype=torch.int64, device=view.device)
        self._warned = False
        self._unproven = signal is not None and bool(compiled_parts(student))
        self._start: State | None = None
        self._window: list[Step] = []

    @property
    def wants_held_out(self) -> bool:
        """Whether the coming step ends with a teacher step, which needs a held-out batch."""
        return self.signal is not None and (self.steps + 1) % self.teacher_every == 0

    @property
    def progress(self) -> Progress:
        """How far the student's training has come."""
        fraction = 0.0 if self.total_steps is None else self.steps / self.total_steps
        if not uses_progress(self.teacher):  # reading the mean loss waits for the device
            return Progress(fraction, 0.0, self.best_accuracy)
        return Progress(
            fraction, float(self._loss_sum) / max(self.steps, 1), self.best_accuracy
        )

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
                "This step ends with a teacher step: give held_out (see Tutor.wants_held_out)."
            )
        require_learnable("batch", batch)
        if held_out is not None and self.wants_held_out:
            require_learnable("held_out", held_out)
        now = autocast_now(batch.inputs.device)
        batch = batch._replace(seed=mixed_seed(self.seed, self.steps), autocast=now)
        progress = self.progress
        self._open_window()
        before = self.task.student.snapshot() if self._unproven else None
        lesson, seen, weights, loss = self._look(batch, progress)
        if before is not None:
            require_same_numbers(self.task, before, lesson, Step(batch, progress, {}), seen)
            self._unproven = False
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        taken = [Step(batch, progress, self._settings())] if self._in_window else []
        self.optimizer.step()
        self._window += taken
        self.steps += 1
        self._loss_sum += loss.detach().to(self._loss_sum)
        losses, weights = seen.losses.detach(), weights.detach().reshape(seen.losses.shape)
        self._weightless += weights.sum() == 0
        judged = self._teach(held_out) if held_out is not None and self._due else None
        return Record(loss.detach(), losses, weights, lesson.ids, judged)

    def _look(
        self, batch: Batch, progress: Progress
    ) -> tuple[Lesson, Observation, Tensor, Tensor]:
        # the student's own forward pass, through its own hooks and wrappers
        with torch.no_grad(), as_taken(batch, batch.seed):
            lesson = prepare(self.teacher, {}, batch)
        taps = taps_of(self.teacher)
        student = self.task.student.module if taps else self.student
        with as_taken(batch, batch.seed + 1), tapped(student, taps) as features:
            logits = student(lesson.inputs)
            losses = self.task.objective(logits, lesson.targets)
        seen = Observation(losses, logits, features, progress)
        if is_deep(self.teacher):  # the student's gradient goes through the weights, too
            own = detached(dict(self.teacher.named_parameters()))
            weights = self.task.weights(own, lesson, seen, batch.seed)
        else:
            with torch.no_grad():
                weights = self.task.weights({}, lesson, seen, batch.seed)
        return lesson, seen, weights, self.task.reduce(losses, weights, lesson)

    @property
    def _in_window(self) -> bool:
        if self.signal is None:
            return False
        return self.steps % self.teacher_every >= self.teacher_every - self.signal.steps

    @property
    def _due(self) -> bool:
        return self.signal is not None and self.steps % self.teacher_every == 0

    def _open_window(self) -> None:
        if self._in_window and not self._window:
            assert self.signal is not None
            self._start = self.task.student.snapshot() if self.signal.keeps_start else None

    def _settings(self) -> Mapping[str, Mapping[str, float | bool]]:
        params = self.task.student.params
        settings = settings_of(self.optimizer, self.task.student.names)
        moved = {k: s for k, s in settings.items() if params[k].grad is not None}
        if not moved:
            raise UnsupportedStudentError(
                "The loss reaches no parameter that the optimiser holds. It holds: "
                f"{', '.join(params)}."
            )
        return moved

    def _teach(self, held_out: Batch) -> Tensor:
        assert self.signal is not None
        assert self.teacher_optimizer is not None
        window = Window(self._start, tuple(self._window), self.task.student.state())
        self._start, self._window = None, []
        self._warn_of_weightless_steps()
        params = {k: p for k, p in self.teacher.named_parameters() if p.requires_grad}
        seed, now = mixed_seed(self.seed, self.steps, 1), autocast_now(held_out.inputs.device)
        held_out = held_out._replace(seed=seed, autocast=now)
        with autocast_to(FULL, held_out.inputs.device):  # sums and products in full precision
            estimate = self.signal(self.task, dict(params), window, held_out)
        if is_finite(estimate.grad):
            for name, p in params.items():
                p.grad = estimate.grad[name].to(p.dtype)
            self.teacher_optimizer.step()
            self.teacher_optimizer.zero_grad(set_to_none=True)
        else:
            self.skipped_teacher_steps += 1
        return estimate.held_out_loss

    def _warn_of_weightless_steps(self) -> None:
        if not self._warned and int(self._weightless):
            self._warned = True
            warnings.warn(
                f"{int(self._weightless)} batches carried no weight at all so far: the teacher "
                "gave every example of them weight 0, and the student learnt nothing.",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue exactly where training stands.

        Returns:
            Plain dictionaries, lists, numbers and tensors, as ``torch.load`` reads safely.
        """
        learner = self.teacher_optimizer
        return {
            "student": self.student.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "teacher": self.teacher.state_dict(),
            "teacher_optimizer": {} if learner is None else learner.state_dict(),
            "steps": self.steps,
            "best_accuracy": self.best_accuracy,
            "skipped_teacher_steps": self.skipped_teacher_steps,
            "loss_sum": self._loss_sum,
            "weightless": self._weightless,
            "start": [] if self._start is None else list(self._start),
            "window": [_packed(step) for step in self._window],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that ``state_dict`` gave.

        Args:
            state: That state.
        """
        self.student.load_state_dict(state["student"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.teacher.load_state_dict(state["teacher"])
        if self.teacher_optimizer is not None:
            self.teacher_optimizer.load_state_dict(state["teacher_optimizer"])
        self.steps = state["steps"]
        self.best_accuracy = state["best_accuracy"]
        self.skipped_teacher_steps = state["skipped_teacher_steps"]
        self._loss_sum = state["loss_sum"].clone()
        self._weightless = state["weightless"].clone()
        self._start = State(*state["start"]) if state["start"] else None
        self._window = [_unpacked(step) for step in state["window"]]


def _packed(step: Step) -> dict[str, Any]:
    settings = {name: dict(own) for name, own in step.settings.items()}
    return {"batch": list(step.batch), "progress": list(step.progress), "settings": settings}


def _unpacked(packed: Mapping[str, Any]) -> Step:
    return Step(Batch(*packed["batch"]), Progress(*packed["progress"]), packed["settings"])

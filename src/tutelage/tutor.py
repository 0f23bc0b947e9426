"""Teaching while a student trains: ordinary student steps, a teacher step now and then."""

import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.alignments import Recorder
from tutelage.differentiable import compiled_parts, eager, require_learnable
from tutelage.errors import UnsupportedStudentError
from tutelage.look import Look, ahead, look, look_again, prepared, weighed
from tutelage.objectives import cross_entropy
from tutelage.precision import FULL, autocast_now, autocast_to
from tutelage.randomness import mixed_seed
from tutelage.records import (
    Batch,
    Judgement,
    Params,
    Progress,
    Recorded,
    Step,
    Window,
    Witness,
)
from tutelage.records import StudentState as State
from tutelage.rules import rule_for, settings_of
from tutelage.signals import OneStep, Signal
from tutelage.student import StudentView
from tutelage.task import Objective, Task, detach, require_same_numbers
from tutelage.teaching import uses_progress
from tutelage.trees import cloned, is_finite, leaves


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
        self._recorder = Recorder(view.module)
        self._start: State | None = None
        self._window: list[Step] = []
        self._pending: tuple[Window, Params] | None = None

    @property
    def wants_held_out(self) -> bool:
        """Whether the coming step ends with a teacher step, which needs a held-out batch."""
        return self._due and not self._next_judges

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
        due, phi = self._due, self._learning()
        if due and self._next_judges:  # changed before its turn comes
            phi = cloned(phi)
        if self._in_window and not self._window:
            self._start = self._kept_start()
        sight, recorded = self._descend(batch, progress, due=due)
        step = Step(batch, progress, self._settings())
        witness = Witness(sight.lesson, detach(sight.seen), recorded)
        judged = self._pass_on(sight.loss, batch) if self._pending is not None else None
        if due and self._retakes:
            assert held_out is not None
            window = ahead(self.task, step, witness)
            judged = self._teach(window, held_out, phi)
            sight = self._descend_again(sight, batch)
        taken = [step] if self._in_window and not self._retakes else []
        self.optimizer.step()
        self._window += taken
        self._count(sight)
        if due and not self._retakes:
            judged = self._look_back(witness, held_out, phi, judged)
        weights = sight.weights.detach().reshape(sight.seen.losses.shape)
        losses = sight.seen.losses.detach()
        return Record(sight.loss.detach(), losses, weights, sight.lesson.ids, judged)

    def _descend(
        self, batch: Batch, progress: Progress, *, due: bool
    ) -> tuple[Look, Recorded | None]:
        before = self.task.student.snapshot() if self._unproven else None
        lesson = prepared(self.task, batch)
        records = due and self._one_step is not None and self._one_step.records(self.task)
        with ExitStack() as stack:
            student, recorded = self.student, None
            if records:  # hooks are not seen by compiled code
                student = self.task.student.module
                stack.enter_context(eager(student))
                recorded = stack.enter_context(self._recorder.record(len(lesson.ids)))
            sight = look(self.task, student, batch, lesson, progress)
            if before is not None:
                step = Step(batch, progress, {})
                require_same_numbers(self.task, before, lesson, step, sight.seen)
                self._unproven = False
            self.optimizer.zero_grad(set_to_none=True)
            sight.loss.backward(retain_graph=due and self._retakes)
        return sight, recorded

    def _descend_again(self, sight: Look, batch: Batch) -> Look:
        again = weighed(self.task, batch, sight.lesson, sight.seen)
        self.optimizer.zero_grad(set_to_none=True)
        again.loss.backward()
        return again

    def _look_back(
        self, witness: Witness, held_out: Batch | None, phi: Params, judged: Tensor | None
    ) -> Tensor | None:
        seen = witness if self._one_step is not None else None
        end = self.task.student.state()
        window = Window(self._start, tuple(self._window), end, seen)
        self._start, self._window = None, []
        if self._next_judges:
            self._pending = window, phi
            return judged
        assert held_out is not None
        return self._teach(window, held_out, phi)

    def _pass_on(self, loss: Tensor, batch: Batch) -> Tensor:
        assert self._pending is not None
        (window, phi), self._pending = self._pending, None
        if window.witness is None:  # training was resumed in between
            assert window.start is not None
            again = look_again(self.task, self._recorder, phi, window.start, window.steps[-1])
            records = self._one_step is not None and self._one_step.records(self.task)
            window = replace(
                window, witness=again if records else again._replace(recorded=None)
            )
        params = self.task.student.params
        grads = {
            k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in params.items()
        }
        verdict = Judgement(loss.detach(), grads, {})
        return self._teach(replace(window, judgement=verdict), batch, leaves(phi))

    def _kept_start(self) -> State | None:
        assert self.signal is not None
        keep = self.signal.keeps_start and not self._retakes
        return self.task.student.snapshot() if keep else None

    def _count(self, sight: Look) -> None:
        self.steps += 1
        self._loss_sum += sight.loss.detach().to(self._loss_sum)
        self._weightless += sight.weights.detach().sum() == 0

    @property
    def _in_window(self) -> bool:
        if self.signal is None:
            return False
        return self.steps % self.teacher_every >= self.teacher_every - self.signal.steps

    @property
    def _due(self) -> bool:
        return self.signal is not None and (self.steps + 1) % self.teacher_every == 0

    @property
    def _one_step(self) -> OneStep | None:
        return self.signal if isinstance(self.signal, OneStep) else None

    @property
    def _retakes(self) -> bool:
        return self._one_step is not None and self._one_step.retakes

    @property
    def _next_judges(self) -> bool:
        return self._one_step is not None and self._one_step.next_judges

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

    def _learning(self) -> Params:
        return {k: p for k, p in self.teacher.named_parameters() if p.requires_grad}

    def _teach(self, window: Window, held_out: Batch, phi: Params) -> Tensor:
        assert self.signal is not None
        assert self.teacher_optimizer is not None
        self._warn_of_weightless_steps()
        seed, now = mixed_seed(self.seed, self.steps, 1), autocast_now(held_out.inputs.device)
        held_out = held_out._replace(seed=seed, autocast=now)
        with autocast_to(FULL, held_out.inputs.device):  # sums and products in full precision
            estimate = self.signal(self.task, phi, window, held_out)
        if is_finite(estimate.grad):
            for name, p in self._learning().items():
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
            "pending": [] if self._pending is None else _packed_window(*self._pending),
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
        pending = state["pending"]
        self._pending = self._resumed(*pending) if pending else None

    def _resumed(
        self, start: list[Any], step: Mapping[str, Any], phi: Params
    ) -> tuple[Window, Params]:
        return Window(State(*start), (_unpacked(step),), self.task.student.state()), phi


def _packed(step: Step) -> dict[str, Any]:
    settings = {name: dict(own) for name, own in step.settings.items()}
    return {"batch": list(step.batch), "progress": list(step.progress), "settings": settings}


def _packed_window(window: Window, phi: Params) -> list[Any]:
    assert window.start is not None
    return [list(window.start), _packed(window.steps[-1]), phi]


def _unpacked(packed: Mapping[str, Any]) -> Step:
    return Step(Batch(*packed["batch"]), Progress(*packed["progress"]), packed["settings"])

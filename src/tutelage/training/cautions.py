"""``LoopCautions``: warnings about the data and the length of a training loop."""

import logging

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.errors import first_few
from tutelage.losses.objectives import cross_entropy
from tutelage.losses.targets import CrossEntropy
from tutelage.teachers.steps_taken import FEWEST_TEACHER_STEPS, STEPS_TAKEN, note_unknown_length
from tutelage.training.teacher_update import TeacherUpdater
from tutelage.types import Batch

_LOG = logging.getLogger(__name__)
CHECK_EVERY = 10
"""teacher steps between two comparisons of classes"""
LAST_CHECK = 50
"""teacher steps after which classes are compared no more"""
EXPECTED = 10
"""held-out labels of a class, by its share of the training labels, above which none of them is
no accident: of independent draws all would miss it once in 20,000 times"""


class LoopCautions:
    """Warns once of few teacher steps, of missing classes and of other channels.

    Whoever checks data and length of a run before it starts, as ``tutelage.fit`` does, needs
    none of them.
    """

    def __init__(
        self, updater: TeacherUpdater, total_steps: int | None, problem: BilevelProblem
    ) -> None:
        self.updater = updater
        self.total_steps = total_steps
        self.processes = problem.processes
        objective = problem.objective
        self._of_classes = objective is cross_entropy or isinstance(objective, CrossEntropy)
        self._noted = self._channels_checked = False
        self._counts: Tensor | None = None
        self._taught = 0

    def note(
        self, steps: int, batch: Batch, held_out: Batch | None, outputs: tuple[int, ...]
    ) -> None:
        """Warn of what is found before a step."""
        if not self._noted:
            self._note_length(steps)
        if held_out is not None:
            self._note_batches(batch, held_out, outputs)

    def _note_length(self, steps: int) -> None:
        """Warn of few teacher steps; without a known end, leave that to ``save_commentary``.

        A run too short for 50 teacher steps with any settings is a trial. Steps that the
        teacher has taken with other students count.
        """
        teacher, total_steps = self.updater.teacher, self.total_steps
        if total_steps is None:
            if steps >= FEWEST_TEACHER_STEPS:  # else it is a trial
                self._noted = True
                note_unknown_length(teacher)
            return
        self._noted = True
        taken = total_steps // (self.updater.every * self.updater.aggregate)
        few = taken + STEPS_TAKEN.get(teacher, 0) < FEWEST_TEACHER_STEPS
        if few and total_steps >= FEWEST_TEACHER_STEPS and not self.processes.rank:
            _LOG.warning(
                "%s takes %d steps only in %d student steps (total_steps), which is little to "
                "learn from: train for more steps, or give a smaller teacher_every, aggregate "
                "or batch size.",
                type(teacher).__name__,
                taken,
                total_steps,
            )

    def _note_batches(self, batch: Batch, held_out: Batch, outputs: tuple[int, ...]) -> None:
        """Compare batches of a teacher step; reads numbers at every tenth of the first 50."""
        if not self._channels_checked:
            self._channels_checked = True
            self._warn_of_channels(batch.inputs, held_out.inputs)
        if not self._of_classes or self._taught >= LAST_CHECK:
            return
        if len(outputs) != 1 or outputs[0] < 2:
            return
        if not (_are_labels(batch.targets) and _are_labels(held_out.targets)):
            return
        self._taught += 1
        width = outputs[0] + 2
        if self._counts is None or self._counts.shape[1] != width:
            self._counts = torch.zeros(2, width, dtype=torch.int64, device=batch.targets.device)
        for row, labels in zip(self._counts, (batch.targets, held_out.targets), strict=True):
            _add(row, labels.to(row.device))
        if self._taught % CHECK_EVERY == 0 and self._warned_of_classes(self._counts):
            self._taught = LAST_CHECK

    def _warn_of_channels(self, training: Tensor, held_out: Tensor) -> None:
        if training.ndim != 4 or held_out.ndim != 4 or self.processes.rank:
            return
        ours, theirs = training.shape[1], held_out.shape[1]
        if ours != theirs:
            _LOG.warning(
                "Held-out images have %s, unlike the training images of %d: a student that "
                "takes both may repeat a channel. Convert them to the same.",
                "1 channel" if theirs == 1 else f"{theirs} channels",
                ours,
            )

    def _warned_of_classes(self, counts: Tensor) -> bool:
        found = self.processes.all_reduce(counts.double())
        if bool(found[:, -2].any()):  # whole numbers that are no class ids
            return True
        train, held_out = found[:, :-2].tolist()
        share = sum(held_out) / max(1, sum(train))
        missing = [
            c
            for c, (given, checked) in enumerate(zip(train, held_out, strict=True))
            if not checked and given * share >= EXPECTED
        ]
        if missing and not self.processes.rank:
            _LOG.warning(
                "No held-out example of the first %d teacher steps is of class %s, which "
                "training examples have: the teacher may take weight from all that have it. "
                "Give held-out examples of every class, and shuffle their loader.",
                self._taught,
                first_few(missing, 10),
            )
        return bool(missing)


def _are_labels(targets: Tensor) -> bool:
    return targets.ndim == 1 and not targets.is_floating_point()


def _add(counts: Tensor, labels: Tensor) -> None:
    # classes, then numbers above them, then those below 0, which losses ignore
    above = len(counts) - 2
    places = labels.long().clamp(max=above)
    places = places.where(places >= 0, above + 1)
    counts.index_add_(0, places, torch.ones_like(places))

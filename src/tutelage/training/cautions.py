"""``LoopCautions``: warnings about the data and the length of a training loop."""

import logging

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from tutelage.distributed.groups import Processes
from tutelage.errors import first_few
from tutelage.teachers.steps_taken import FEWEST_TEACHER_STEPS, note_optimizer
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

    Args:
        processes: Those that train the student together.
    """

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self._noted = self._channels_checked = False
        self._counts: Tensor | None = None
        self._taught = 0

    def note_length(
        self,
        steps: int,
        total_steps: int | None,
        every: int,
        teacher: nn.Module,
        optimizer: Optimizer,
    ) -> None:
        """Warn of few teacher steps; without a known end, leave that to ``save_commentary``.

        Args:
            steps: Student steps taken.
            total_steps: Of the whole run, if known; a run too short for 50 teacher steps with
                any settings is a trial.
            every: Student steps between two teacher steps.
            teacher: The teacher.
            optimizer: Its own.
        """
        if self._noted:
            return
        if total_steps is None:
            if steps >= FEWEST_TEACHER_STEPS:  # else it is a trial
                self._noted = True
                note_optimizer(teacher, optimizer)
            return
        self._noted = True
        taken = total_steps // every
        if taken < FEWEST_TEACHER_STEPS <= total_steps and not self.processes.rank:
            _LOG.warning(
                "%s takes %d steps only in %d student steps (total_steps), which is little to "
                "learn from: train for more steps, or give a smaller teacher_every, aggregate "
                "or batch size.",
                type(teacher).__name__,
                taken,
                total_steps,
            )

    def note_batches(self, batch: Batch, held_out: Batch, outputs: int | None) -> None:
        """Compare the batches of a teacher step; reads numbers at every tenth of the first 50.

        Args:
            batch: Training examples.
            held_out: Held-out ones.
            outputs: The student's outputs for an example, if it gives [L, C]; None: unknown.
        """
        if not self._channels_checked:
            self._channels_checked = True
            self._warn_of_channels(batch.inputs, held_out.inputs)
        if outputs is None or outputs < 2 or self._taught >= LAST_CHECK:
            return
        if not (_are_labels(batch.targets) and _are_labels(held_out.targets)):
            return
        self._taught += 1
        if self._counts is None or self._counts.shape[1] != outputs + 2:
            self._counts = torch.zeros(
                2, outputs + 2, dtype=torch.int64, device=batch.targets.device
            )
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
                "Give held-out examples of every class.",
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

"""Lightning: a module whose training step is taken under a teacher."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from tutelage.data.loaders import as_batch, without_ids
from tutelage.distributed.groups import Group, Processes, SingleProcess
from tutelage.errors import MissingExtraError, UsageError
from tutelage.integrations.lightning_step import LightningStep
from tutelage.integrations.teaching import BesideStudent, Teaching
from tutelage.training.forward import Record
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

try:
    import lightning as L
    from lightning.pytorch.strategies import DDPStrategy
except ImportError as error:
    raise MissingExtraError("lightning", "lightning") from error

_KEY = "tutelage"
"""where a checkpoint keeps the tutor"""
_NO_WINDOW: dict[str, Any] = {"start": [], "window": [], "pending": []}
"""of a tutor whose student has a new optimiser: no step before it is looked back over"""


class TeachingModule(L.LightningModule):
    """A ``LightningModule`` whose ``forward`` is the student, taught once ``teach`` was called.

    It defines ``forward(inputs) -> logits`` and ``configure_optimizers`` as any other, and no
    ``training_step``: this one draws held-out examples, takes the step under the teacher, by
    Lightning's own backward pass and optimiser, so that its precision plugins and hooks act as
    always, steps the schedulers and logs ``train_loss`` and ``held_out_loss``. The teacher is
    no part of the module's parameters. Checkpoints keep all that the tutor needs, so that
    training goes on where it was.

    A subclass that overrides a hook defined here calls ``super()``'s, too.

    Note: optimisation is manual for Lightning, which for that refuses
    ``Trainer(gradient_clip_val=..., accumulate_grad_batches=...)``: clip by
    ``Teaching.max_norm``, accumulate by ``Teaching.micro_batch``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.teaching: Teaching | None = None
        self.tutor: Tutor | None = None
        self._kept: list[dict[str, Any]] | None = None
        self._begun_at = 0

    def teach(self, teaching: Teaching) -> None:
        """Say who teaches; before ``Trainer.fit``.

        Where the module comes from ``load_from_checkpoint``, the teacher gets what it had then.

        Args:
            teaching: The teacher, how it learns and what judges.
        """
        self.teaching, self.tutor = teaching, None
        self._restore_teacher()

    def batch_of(self, loaded: Any) -> Batch:
        """What the training loader gave, as a batch; override for batches of another form.

        Args:
            loaded: Inputs, targets and ids, as a loader of ``data.loaders.Numbered`` gives.

        Returns:
            The batch.
        """
        return as_batch(loaded)

    def held_out_of(self, drawn: Any) -> Batch:
        """What was drawn to judge the student, as a batch; override along with ``batch_of``.

        Args:
            drawn: Inputs and targets; ids may follow.

        Returns:
            The batch.
        """
        return without_ids(drawn)

    def on_train_start(self) -> None:
        """Make the tutor, of the optimiser that Lightning has set up and restored.

        Raises:
            UsageError: If nobody teaches, there are several optimisers, or no ``forward``; or
                several processes are not kept in step by ``DistributedDataParallel``.
        """
        if self.teaching is None:
            name = type(self).__name__
            raise UsageError(f"{name} has no teacher: call teach(Teaching(...)) before fit.")
        optimizer = self.optimizers(use_pl_optimizer=False)
        if isinstance(optimizer, list):
            raise UsageError(
                f"configure_optimizers gives {len(optimizer)} optimizers; give one, with "
                "parameter groups where settings differ."
            )
        if type(self).forward is L.LightningModule.forward:
            raise UsageError(
                f"{type(self).__name__} has no forward(inputs), which a teacher takes for the "
                "student: define it, to give logits."
            )
        steps = self.trainer.estimated_stepping_batches
        total = None if steps in (-1, float("inf")) else int(steps)
        before, self.tutor = self.tutor, None
        tutor = self.teaching.tutor(
            self,
            optimizer,
            total_steps=total,
            step_strategy=LightningStep(self, self.teaching.max_norm),
            processes=self._processes(),
        )
        self._go_on(tutor, before)
        self.tutor, self._begun_at = tutor, tutor.steps

    def _go_on(self, tutor: Tutor, before: Tutor | None) -> None:
        # Steps are the trainer's: a second fit goes on with them, a new trainer begins anew.
        taken, own = self.trainer.global_step, self._own_of(self._kept)
        self._kept = None
        if own is None and before is not None and before.teacher is tutor.teacher and taken:
            own = BesideStudent(before).state_dict() | _NO_WINDOW  # the optimiser is a new one
        elif own is not None and own.get("steps") != taken:
            own = None  # the teacher is back already; the optimiser is a new one
        if own is not None:
            BesideStudent(tutor).load_state_dict(own | {"steps": taken})
        tutor.steps = taken

    def training_step(self, loaded: Any, index: int) -> Tensor:  # noqa: ARG002 - Lightning's
        """Take a student step, and a teacher step where one is due.

        Args:
            loaded: What the loader gave, on the module's device.
            index: Of the batch in its epoch.

        Returns:
            The loss that the student descended, detached.
        """
        assert self.teaching is not None
        assert self.tutor is not None
        batch = self.batch_of(loaded)
        if (
            self.trainer.fit_loop._skip_backward
        ):  # averaged weights: statistics alone are renewed
            with torch.no_grad():
                self(batch.inputs)
            return torch.zeros(())
        record = self.teaching.step(self.tutor, batch, self._held_out)
        self.log_record(record)
        for config in self.trainer.lr_scheduler_configs:
            if config.interval == "step" and self.tutor.steps % config.frequency == 0:
                self._step_scheduler(config)
        return record.loss

    def log_record(self, record: Record) -> None:
        """Log a step; override to log more of it.

        Args:
            record: What happened.
        """
        size = len(record.ids)
        self.log("train_loss", record.loss, prog_bar=True, batch_size=size)
        if record.held_out_loss is not None:
            self.log("held_out_loss", record.held_out_loss, batch_size=size)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Refuse a subclass whose own training step does without the teacher.

        Args:
            outputs: Lightning's.
            batch: Lightning's.
            batch_idx: Lightning's.

        Raises:
            UsageError: If it does.
        """
        if self.tutor is not None and self.tutor.steps == self._begun_at:
            raise UsageError(
                f"{type(self).__name__}.training_step takes no step under the teacher: leave "
                "it out, or call super().training_step(loaded, index) in it."
            )

    def on_train_epoch_end(self) -> None:
        """Step the schedulers whose interval is an epoch, after validation."""
        for config in self.trainer.lr_scheduler_configs:
            if config.interval == "epoch" and not (self.current_epoch + 1) % config.frequency:
                self._step_scheduler(config)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what the tutor needs to go on.

        Args:
            checkpoint: Lightning's, with the student and its optimiser.
        """
        if self.teaching is None:
            return
        holder = self.teaching if self.tutor is None else BesideStudent(self.tutor)
        own = holder.state_dict()
        states: list[Any] = [own] * self.trainer.world_size
        if self.trainer.world_size > 1:  # each process remembers rows of its own
            dist.all_gather_object(states, own)
        checkpoint[_KEY] = states

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Give the teacher what it had, and hold on to the rest until the optimiser is there.

        Whatever restores the student comes here: ``fit``, ``validate`` and ``test`` with a
        ``ckpt_path``, ``load_from_checkpoint``, the tuner after it has tried.

        Args:
            checkpoint: Lightning's.

        Note: raises ``UsageError`` where the teacher is another one.
        """
        self._kept = checkpoint.get(_KEY)
        self._restore_teacher()

    def _own_of(self, kept: list[dict[str, Any]] | None) -> dict[str, Any] | None:
        if kept is None:
            return None
        rank = self.global_rank if self._trainer is not None else 0
        return kept[rank % len(kept)]

    def _restore_teacher(self) -> None:
        own = self._own_of(self._kept)
        if self.teaching is not None and own is not None:
            self.teaching.load_state_dict(own)

    def _held_out(self, drawn: Any) -> Batch:
        moved = self.trainer.strategy.batch_to_device(drawn)
        return self.held_out_of(self.trainer.precision_plugin.convert_input(moved))

    def _processes(self) -> Processes:
        if self.trainer.world_size == 1:
            return SingleProcess()
        if isinstance(self.trainer.strategy, DDPStrategy):
            return Group()  # Lightning prepares its wrapper for each manual_backward
        raise UsageError(
            f"Several processes with {type(self.trainer.strategy).__name__} are not supported: "
            'use Trainer(strategy="ddp").'
        )

    def _step_scheduler(self, config: Any) -> None:
        metric = None
        if config.reduce_on_plateau or isinstance(config.scheduler, ReduceLROnPlateau):
            metric = self.trainer.callback_metrics.get(config.monitor)
            if metric is None:
                raise UsageError(
                    f"The scheduler monitors '{config.monitor}', which was not logged; there "
                    f"is: {', '.join(self.trainer.callback_metrics) or 'nothing'}."
                )
        self.lr_scheduler_step(config.scheduler, metric)

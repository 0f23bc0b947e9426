"""Lightning: a module whose training step is taken under a teacher."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from tutelage.data.loaders import as_batch, without_ids
from tutelage.descent import require_norm, scale_gradient
from tutelage.errors import MissingExtraError, UsageError
from tutelage.integrations.teaching import BesideStudent, Teaching
from tutelage.look import Record
from tutelage.processes import Alone, Group, Processes
from tutelage.records import Batch
from tutelage.tutor import Tutor

try:
    import lightning as L
    from lightning.pytorch.strategies import DDPStrategy
except ImportError as error:
    raise MissingExtraError("lightning", "lightning") from error

_KEY = "tutelage"
"""where a checkpoint keeps the tutor"""


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

    def teach(self, teaching: Teaching) -> None:
        """Say who teaches; before ``Trainer.fit``.

        Args:
            teaching: The teacher, how it learns and what judges.
        """
        self.teaching = teaching

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
        self.tutor = self.teaching.tutor(
            self,
            optimizer,
            total_steps=total,
            descent=ByLightning(self, self.teaching.max_norm),
            processes=self._processes(),
        )
        if self._kept is not None:
            own = self._kept[self.global_rank % len(self._kept)]
            BesideStudent(self.tutor).load_state_dict(own)
            self._kept = None

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
        if self.tutor is not None and self.tutor.steps == 0:
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
        if self.tutor is None:
            return
        own = BesideStudent(self.tutor).state_dict()
        states: list[Any] = [own] * self.trainer.world_size
        if self.trainer.world_size > 1:  # each process remembers rows of its own
            dist.all_gather_object(states, own)
        checkpoint[_KEY] = states

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Hold on to it until the optimiser is there.

        Args:
            checkpoint: Lightning's.
        """
        self._kept = checkpoint.get(_KEY)

    def _held_out(self, drawn: Any) -> Batch:
        moved = self.trainer.strategy.batch_to_device(drawn)
        return self.held_out_of(self.trainer.precision_plugin.convert_input(moved))

    def _processes(self) -> Processes:
        if self.trainer.world_size == 1:
            return Alone()
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


@dataclass(frozen=True)
class ByLightning:
    """A step by ``manual_backward`` and Lightning's optimiser, in whatever precision it runs.

    Lightning unscales a scaled gradient when its optimiser steps. The gradient is seen without
    the scale before, and gets it back there; scales are powers of two, so no bit is lost.

    Raises:
        ValueError: If ``max_norm`` is not positive.
    """

    module: L.LightningModule
    max_norm: float | None = None
    """norm over all parameters to which the gradient is clipped; None: it is not"""

    def __post_init__(self) -> None:
        require_norm(self.max_norm)

    @property
    def scales(self) -> bool:
        """Whether Lightning scales the loss."""
        return self._scale() is not None

    def backward(self, loss: Tensor, optimizer: Optimizer, *, again: bool) -> None:
        """Leave the gradient in the parameters, without the scale.

        Args:
            loss: What the student descends, a scalar.
            optimizer: The student's.
            again: Whether the graph is needed for another backward pass.
        """
        self.module.manual_backward(loss, retain_graph=again)
        if (scale := self._scale()) is not None:
            scale_gradient(optimizer, 1 / scale)

    def step(self, optimizer: Optimizer) -> bool:
        """Move the student.

        Args:
            optimizer: The student's.

        Returns:
            False where a scaled gradient overflowed.
        """
        if self.max_norm is not None:
            self.module.clip_gradients(optimizer, self.max_norm, "norm")
        scale = self._scale()
        if scale is not None:
            scale_gradient(optimizer, scale)
        own = self.module.optimizers()
        assert not isinstance(own, Sequence)
        own.step()
        after = self._scale()
        return scale is None or after is None or after >= scale

    def _scale(self) -> float | None:
        scaler = getattr(self.module.trainer.precision_plugin, "scaler", None)
        return None if scaler is None else float(scaler.get_scale())

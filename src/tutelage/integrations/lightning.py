"""Lightning: a module whose training step is taken under a teacher."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from tutelage.data.loaders import as_batch, without_ids
from tutelage.distributed.groups import Group, Processes, SingleProcess
from tutelage.errors import MissingExtraError, UsageError
from tutelage.integrations.teaching import Teaching, TeachingState
from tutelage.training.forward import StepResult
from tutelage.training.step_strategy import require_norm, scale_gradient
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
"""of a tutor whose student has a new optimiser: no earlier step is in its window"""


class TeachingModule(L.LightningModule):
    """A ``LightningModule`` whose ``forward`` is a student with a teacher.

    It defines ``forward(inputs) -> logits`` and ``configure_optimizers`` as any other, and no
    ``training_step``: this one draws held-out examples, takes the step by Lightning's own
    backward pass and optimiser, so that precision plugins and hooks work as usual, steps the
    schedulers and logs ``train_loss`` and ``held_out_loss``. The teacher is not among the
    module's parameters. Checkpoints hold the tutor's state, so that training resumes exactly.

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
        """Set the teacher, before ``Trainer.fit``.

        Where the module comes from ``load_from_checkpoint``, the teacher gets what it had then.
        """
        self.teaching, self.tutor = teaching, None
        self._restore_teacher()

    def batch_of(self, loaded: Any) -> Batch:
        """Convert the training loader's output to a batch; override for other formats."""
        return as_batch(loaded)

    def held_out_of(self, drawn: Any) -> Batch:
        """Convert held-out examples to a batch; override along with ``batch_of``."""
        return without_ids(drawn)

    def on_train_start(self) -> None:
        """Make the tutor from the optimiser that Lightning has restored."""
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
            own = TeachingState(before).state_dict() | _NO_WINDOW  # the optimiser is a new one
        elif own is not None and own.get("steps") != taken:
            own = None  # the teacher is back already; the optimiser is a new one
        if own is not None:
            TeachingState(tutor).load_state_dict(own | {"steps": taken})
        tutor.steps = taken

    def training_step(self, loaded: Any, index: int) -> Tensor:  # noqa: ARG002 - Lightning's
        """Take a student step, and a teacher step where one is due."""
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

    def log_record(self, record: StepResult) -> None:
        """Log a step; override to log more."""
        size = len(record.ids)
        self.log("train_loss", record.loss, prog_bar=True, batch_size=size)
        if record.held_out_loss is not None:
            self.log("held_out_loss", record.held_out_loss, batch_size=size)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Raise if a subclass's training step bypasses the teacher."""
        if self.tutor is not None and self.tutor.steps == self._begun_at:
            raise UsageError(
                f"{type(self).__name__}.training_step takes no step under the teacher: leave "
                "it out, or call super().training_step(loaded, index) in it."
            )

    def on_train_epoch_end(self) -> None:
        """Step schedulers with an epoch interval, after validation."""
        for config in self.trainer.lr_scheduler_configs:
            if config.interval == "epoch" and not (self.current_epoch + 1) % config.frequency:
                self._step_scheduler(config)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the tutor's state."""
        if self.teaching is None:
            return
        holder = self.teaching if self.tutor is None else TeachingState(self.tutor)
        own = holder.state_dict()
        states: list[Any] = [own] * self.trainer.world_size
        if self.trainer.world_size > 1:  # each process remembers rows of its own
            dist.all_gather_object(states, own)
        checkpoint[_KEY] = states

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the teacher, and keep the rest until the optimiser is set up.

        Whatever restores the student comes here: ``fit``, ``validate`` and ``test`` with a
        ``ckpt_path``, ``load_from_checkpoint``, the tuner after it has tried.

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


@dataclass(frozen=True)
class LightningStep:
    """A step strategy by ``manual_backward`` and Lightning's optimiser.

    The gradient is unscaled after the backward pass, and scaled again before Lightning's
    optimiser unscales it; scales are powers of two, so that this is exact.
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

    def backward(self, loss: Tensor, optimizer: Optimizer, *, retain_graph: bool) -> None:
        """Run the backward pass and unscale the gradient."""
        self.module.manual_backward(loss, retain_graph=retain_graph)
        if (scale := self._scale()) is not None:
            scale_gradient(optimizer, 1 / scale)

    def step(self, optimizer: Optimizer) -> bool:
        """Clip, and step Lightning's optimiser."""
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

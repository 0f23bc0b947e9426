"""Transformers: a ``Trainer`` whose training step is taken under a teacher."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.data.loaders import Indexed, RandomBatches
from tutelage.errors import MissingExtraError, UsageError
from tutelage.functional.differentiable import original
from tutelage.integrations.checkpoint_folder import read_tutor_file
from tutelage.integrations.columns import (
    by_columns,
    evaluation_mode,
    logits_without_labels,
    stacked,
)
from tutelage.integrations.teaching import Teaching, TeachingState
from tutelage.integrations.trainer_loss import TrainerLoss, find_trainer_loss
from tutelage.losses.objectives import Objective
from tutelage.storage.checkpoint import save_checkpoint
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

try:
    from transformers import Trainer, TrainerCallback
except ImportError as error:
    raise MissingExtraError("transformers", "transformers") from error
from tutelage.integrations.accelerate import AcceleratedStep, require_prepared

_FILE = "tutelage.{}.pt"
"""where a checkpoint folder keeps the tutor of each process"""


class TeachingTrainer(Trainer):
    """A ``Trainer`` whose student has a teacher.

    The training set has an integer column of example ids; it is kept with
    ``remove_unused_columns=True``, too, and not passed to the model. The loss is the teacher's
    weighted mean of the Trainer's own (see ``TrainerLoss``), or of ``Teaching.objective``.
    Clipping (``max_grad_norm``), precision, schedule, logs (with ``held_out_loss``) and
    checkpoints are the Trainer's. Checkpoints hold the tutor's state: training resumes exactly,
    and the best model is loaded with its teacher.

    Note: evaluation is the Trainer's own, without a teacher that acts at test. The optimiser
    steps within ``training_step``, so that ``on_pre_optimizer_step`` comes after it. All input
    columns have one shape: encoder-decoder models are not supported.
    """

    teaching: Teaching | None = None
    id_column = "idx"
    tutor: Tutor | None = None
    _columns: tuple[str, ...] = ()
    _kept: dict[str, Any] | None = None
    _held_out_losses: Sequence[Tensor] = ()

    def teach(self, teaching: Teaching, *, id_column: str = "idx") -> None:
        """Set the teacher, before ``train``."""
        if self.args.gradient_accumulation_steps != 1:
            raise UsageError(
                f"gradient_accumulation_steps is {self.args.gradient_accumulation_steps}, but "
                "a taught step is taken on one batch: set it to 1, raise "
                "per_device_train_batch_size by so much, and give Teaching(micro_batch=...), "
                "the rows that the student sees at a time."
            )
        if self.args.n_gpu > 1:
            raise UsageError(
                f"The Trainer would spread batches over {self.args.n_gpu} devices in one "
                "process: start it with torchrun, or set CUDA_VISIBLE_DEVICES to one of them."
            )
        if teaching.max_norm not in (None, self._max_norm):
            raise UsageError(
                f"Teaching.max_norm is {teaching.max_norm} but the arguments' max_grad_norm "
                f"{self.args.max_grad_norm}: the latter clips, leave the former away."
            )
        own = type(self).compute_loss is not Trainer.compute_loss
        if own or self.compute_loss_func is not None:
            name = "compute_loss" if own else "compute_loss_func"
            raise UsageError(
                f"{name} gives one loss for a whole batch, which a teacher cannot weigh: leave "
                "it out and give Teaching(objective=...), one loss for each example."
            )
        self.teaching = teaching
        self.id_column = id_column
        self.tutor = None
        self.remove_callback(_StepTaken)
        self.add_callback(_StepTaken(self))

    def draws(self, examples: Indexed, size: int) -> RandomBatches:
        """Random held-out batches, by the Trainer's collator."""
        collate = self._get_collator_with_removed_columns(self.data_collator)
        return RandomBatches(examples, size, self.args.seed, collate)

    def training_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Take a student step, and a teacher step where one is due."""
        if self.teaching is None:
            raise UsageError("The trainer has no teacher: call teach(Teaching(...)) before.")
        inputs = self._prepare_inputs(inputs)
        columns, batch = stacked(inputs, self._label, self.id_column)
        if self.tutor is None:
            objective = self.teaching.objective or self._own_loss(
                model, inputs, columns, batch, num_items_in_batch
            )
            self.tutor = self._tutor(self.teaching, model, objective)
            self._columns = columns
        self._require(columns)
        model.train()
        with self.compute_loss_context_manager(), by_columns(original(model), columns):
            record = self.teaching.step(self.tutor, batch, self._held_out)
        if record.held_out_loss is not None:
            self._held_out_losses = (*self._held_out_losses, record.held_out_loss)
        # the loop's own optimizer.step() is still to come
        self.accelerator.gradient_state._set_sync_gradients(False)
        return record.loss

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Evaluate a batch as the Trainer does, without the id column."""
        return super().prediction_step(
            model, self._without_ids(inputs), prediction_loss_only, ignore_keys
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as the Trainer does, with the mean held-out loss."""
        if "loss" in logs and self.teaching is not None and self._held_out_losses:
            logs["held_out_loss"] = float(torch.stack(list(self._held_out_losses)).mean())
            self._held_out_losses = ()
        super().log(logs, start_time)

    @property
    def _label(self) -> str:
        if len(self.label_names) != 1:
            raise UsageError(
                f"The model takes {len(self.label_names)} labels "
                f"({', '.join(self.label_names)}), as for question answering; one is needed. "
                "Teach such a model in a loop of your own."
            )
        return self.label_names[0]

    @property
    def _max_norm(self) -> float | None:
        norm = self.args.max_grad_norm
        return norm if norm is not None and norm > 0 else None

    def _own_loss(
        self,
        model: nn.Module,
        inputs: Mapping[str, Any],
        columns: Sequence[str],
        batch: Batch,
        items: Tensor | int | None,
    ) -> TrainerLoss:
        # by what the Trainer itself makes of the first batch
        student = original(model)
        smoothing = self.args.label_smoothing_factor if self.label_smoother else 0.0
        TrainerLoss.of(student, smoothing, batch.targets)  # refuses what cannot be smoothed
        items = items if self.args.world_size == 1 else None  # of all processes otherwise
        with evaluation_mode(student, batch.inputs.device), self.compute_loss_context_manager():
            wanted, outputs = self.compute_loss(
                student,
                self._without_ids(inputs),
                return_outputs=True,
                num_items_in_batch=items,
            )
            logits = logits_without_labels(student, columns, batch, outputs)
        return find_trainer_loss(student, smoothing, batch, logits, wanted.detach())

    def _tutor(self, teaching: Teaching, student: nn.Module, objective: Objective) -> Tutor:
        step_strategy = AcceleratedStep(
            self.accelerator, require_prepared(self.optimizer), self._max_norm
        )
        tutor = teaching.tutor(
            student,
            step_strategy.optimizer.optimizer,
            total_steps=self.state.max_steps,
            objective=objective,
            step_strategy=step_strategy,
        )
        if self._kept is not None:
            TeachingState(tutor).load_state_dict(self._kept)
            self._kept = None
        return tutor

    def _file_in(self, checkpoint: str | Path) -> Path:
        return Path(checkpoint) / _FILE.format(self.args.process_index)

    def _held_out(self, drawn: Mapping[str, Any]) -> Batch:
        inputs = self._prepare_inputs(self._without_ids(drawn))
        columns, batch = stacked(inputs, self._label, None)
        self._require(columns)
        return batch

    def _require(self, columns: tuple[str, ...]) -> None:
        if columns != self._columns:
            raise UsageError(
                f"A batch has the columns {', '.join(columns)}, but the first one had "
                f"{', '.join(self._columns)}: prepare all examples alike."
            )

    def _without_ids(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: column for name, column in inputs.items() if name != self.id_column}

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        assert self._signature_columns is not None
        if self.id_column not in self._signature_columns:
            self._signature_columns.append(self.id_column)

    def _clip_grad_norm(self, model: nn.Module) -> Tensor | None:  # noqa: ARG002 - done already
        step_strategy = None if self.tutor is None else self.tutor.step_strategy
        return step_strategy.norm if isinstance(step_strategy, AcceleratedStep) else None

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        return grad_norm if grad_norm is not None else self._clip_grad_norm(model)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        if self.tutor is None or self.teaching is None:
            return
        folder = Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}"
        alone = self.args.save_only_model
        state = self.teaching if alone else TeachingState(self.tutor)
        save_checkpoint(self._file_in(folder), state.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        self._kept = None
        if checkpoint is None or self.teaching is None:
            return
        file = self._file_in(checkpoint)
        self._kept = read_tutor_file(file)
        if "steps" not in self._kept:
            raise UsageError(
                f"{file} holds the teacher alone, because of save_only_model=True: training "
                "cannot go on from that checkpoint."
            )

    def _load_best_model(self) -> None:
        super()._load_best_model()
        best = self.state.best_model_checkpoint
        if self.teaching is not None and best is not None:
            self.teaching.load_state_dict(read_tutor_file(self._file_in(best)))


class _StepTaken(TrainerCallback):
    """Resets the tutor at the start of training, and skips the loop's own optimiser step."""

    def __init__(self, trainer: TeachingTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, *_args: Any, **_settings: Any) -> None:
        self.trainer.tutor = None

    def on_optimizer_step(self, *_args: Any, **_settings: Any) -> None:
        self.trainer.accelerator.gradient_state._set_sync_gradients(True)

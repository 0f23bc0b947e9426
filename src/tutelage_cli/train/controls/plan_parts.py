"""Parts of plans: rows, targets, correction, a budget of steps."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from tutelage.crossfit import ForwardCorrected
from tutelage.crossfit.transitions import GoldLossCorrected
from tutelage.functional.portable_state import load_state
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.storage.checkpoint import check_checksum, load_checkpoint, name_damaged_file
from tutelage.training.tutor import Tutor
from tutelage_cli.data.batches import SeededBatches
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.controls.control_batches import (
    RelabelledBatches,
    RepeatedBatches,
    batches_like,
)
from tutelage_cli.train.controls.tuning import ControlInputs
from tutelage_cli.train.example_history import ExampleIndex, example_index
from tutelage_cli.train.job import Job, learning_rate
from tutelage_cli.train.plan import BatchSource, TrainingPlan, TrainState
from tutelage_cli.train.settings import TrainSettings


def shares_of(inputs: ControlInputs, shares: tuple[float, ...]) -> list[int]:
    """Shares of the run's steps, one and above, each once."""
    steps = len(inputs.streams.train) * inputs.job.settings.epochs
    return sorted({max(1, round(share * steps)) for share in shares})


def rates_of(settings: TrainSettings) -> tuple[float, ...]:
    """The learning rate of every epoch."""
    return tuple(learning_rate(settings, epoch) for epoch in range(settings.epochs))


def plain_training(
    inputs: ControlInputs,
    batches: BatchSource,
    index: ExampleIndex,
    seconds: float = 0.0,
    objective: Objective = cross_entropy,
    weights: Tensor | None = None,
) -> TrainingPlan:
    """Plain training for as many steps as the untaught student takes."""
    job, settings = inputs.job, inputs.job.settings
    length = len(inputs.streams.train)
    steps, train = length * settings.epochs, inputs.material.train
    return TrainingPlan(
        build_tutor("untaught", job.seed, train, settings, steps, objective=objective),
        RepeatedBatches(batches, length),
        rates_of(settings),
        index,
        TrainState(seconds=seconds),
        weights,
        on_checked=True,
    )


def load_trained(tutor: Tutor, before: Job) -> float:
    """Give a student the weights with which another one ended; return the seconds it took."""
    remedy = f"Delete {before.folder}, then go on with --resume."
    with name_damaged_file(before.checkpoint, remedy):
        checkpoint = load_checkpoint(before.checkpoint, device_of(before.settings))
        student = check_checksum("tutor", checkpoint)["student"]
        seconds = float(checkpoint["state"]["seconds"])
    load_state(tutor.student, student, "student")
    return seconds


def with_checked(
    inputs: ControlInputs, rows: Tensor | None = None
) -> tuple[SeededBatches, ExampleIndex]:
    """Put the checked examples after the training examples, all or some of these."""
    train = inputs.material.train if rows is None else inputs.material.train.rows(rows)
    examples = train.concatenated(inputs.material.held_out)
    return batches_like(inputs.streams.train, examples), example_index(examples, None)


def corrected(
    inputs: ControlInputs, transitions: Tensor
) -> tuple[BatchSource, ExampleIndex, Objective]:
    """Prepare gold loss correction on training and checked examples."""
    given, checked = inputs.material.train.labels, inputs.material.held_out.labels
    batches, index = with_checked(inputs)
    targets = torch.cat([given, len(transitions) + checked])
    return (
        RelabelledBatches(batches, targets),
        index,
        GoldLossCorrected(ForwardCorrected(transitions)),
    )


def on_posteriors(
    inputs: ControlInputs, posteriors: Float[Tensor, "N C"]
) -> tuple[BatchSource, ExampleIndex]:
    """Prepare training examples under soft targets, and checked ones."""
    right = F.one_hot(inputs.material.held_out.labels, posteriors.shape[1]).to(posteriors)
    batches, index = with_checked(inputs)
    return RelabelledBatches(batches, torch.cat([posteriors, right])), index

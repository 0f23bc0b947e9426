"""Evaluation of a student and its teacher: accuracy, losses and weights of all examples."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from tutelage.commentaries import Provenance, save_commentary
from tutelage.distributed.groups import ALONE
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.losses.objectives import cross_entropy, logits_of, losses_of
from tutelage.signals.dots import gradient_alignments
from tutelage.storage.json_files import write_json
from tutelage.teacher import taps_of, uses_alignments
from tutelage.teachers import GivenWeights, OutOfFoldTargets
from tutelage.training.accuracy_reward import held_out_accuracy
from tutelage.training.forward import prediction_batch
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Step
from tutelage_cli.data.batches import SeededBatches
from tutelage_cli.data.by_name import write_by_name
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.material import Material, Streams
from tutelage_cli.train.students import Data, raw_examples

EVAL_BATCH_SIZE = 500
"""examples in a batch without gradients"""
MAX_LOSS = 1e4
"""nats, the cap of one example's loss in a mean log-likelihood"""
TEXT = "text"
"""column of the texts, where examples are texts"""
EXAMPLES, HELD_OUT = "examples.parquet", "held-out.parquet"
"""tables of the training and of the held-out examples in a student's folder"""


class Evaluation(NamedTuple):
    """Per training example, in the order of the training set."""

    predicted: Tensor
    """[N] class numbers"""
    losses: Tensor
    """[N] of the training labels, nats"""
    weights: Tensor
    """[N] the teacher's weights, before normalisation"""


class Cost(NamedTuple):
    """Time and memory of a training."""

    seconds: float
    """of the student and teacher steps"""
    memory: int | None
    """bytes at the peak, see ``tutelage_cli.train.memory``; None where that is not known"""


def accuracy(tutor: Tutor, batches: SeededBatches) -> float:
    """Share of correct predictions, the student in evaluation mode."""
    return held_out_accuracy(tutor, batches.whole(EVAL_BATCH_SIZE))


@torch.no_grad()
def log_likelihood(tutor: Tutor, batches: SeededBatches) -> float:
    """Mean log-likelihood of the labels, the student in evaluation mode."""
    student, mode = tutor.student, tutor.student.training
    student.eval()
    losses = [
        cross_entropy(
            logits_of(student(prediction_batch(tutor.problem, batch).inputs)), batch.targets
        )
        for batch in batches.whole(EVAL_BATCH_SIZE)
    ]
    student.train(mode)
    values = torch.cat(losses).double().nan_to_num(nan=MAX_LOSS)
    return -float(values.clamp(max=MAX_LOSS).mean())


@torch.no_grad()
def evaluate(
    tutor: Tutor,
    batches: SeededBatches,
    held_out: Batch | None = None,
    *,
    with_weights: bool = True,
) -> Evaluation:
    """Predictions, losses and weights of un-augmented examples, in evaluation mode."""
    student, problem = tutor.student, replace(tutor.problem, processes=ALONE)
    mode = student.training
    student.eval()
    parts = []
    for batch in batches.whole(EVAL_BATCH_SIZE):
        prepared = prediction_batch(problem, batch)
        with record_outputs(student, taps_of(tutor.teacher)) as features:
            outputs = student(prepared.inputs)
        logits, losses = logits_of(outputs), losses_of(problem.objective, outputs, batch)
        observation = Observation(losses, logits, features, tutor.progress)
        if uses_alignments(tutor.teacher) and held_out is not None:
            step = Step(batch, tutor.progress, {})
            alignments = gradient_alignments(problem, prepared, step, held_out)
            observation = observation._replace(alignments=alignments)
        weights = torch.full_like(losses, float("nan"))
        if with_weights:
            weights = problem.weights({}, prepared, observation, batch.seed)
        parts.append((logits.argmax(1), losses, weights))
    student.train(mode)
    return Evaluation(*(torch.cat(column).cpu() for column in zip(*parts, strict=True)))


def write_result(
    folder: Path,
    tutor: Tutor,
    streams: Streams,
    material: Material,
    history: Sequence[dict[str, float | int]],
    cost: Cost,
    *,
    weights: Tensor | None = None,
    on_checked: bool = False,
) -> None:
    """Write a finished student's result, its teacher and tables of its examples.

    ``inspect`` compares training examples with the held-out ones of the second table.
    """
    held_out_batch = streams.held_out.draw(tutor.steps)
    trained = evaluate(tutor, streams.train, held_out_batch)
    if weights is not None:
        trained = trained._replace(weights=weights)
    write_examples(folder / EXAMPLES, material.train, trained, material.truth)
    if not on_checked:
        # these have weights of training examples only
        by_id = isinstance(tutor.teacher, GivenWeights | OutOfFoldTargets)
        held_out = evaluate(tutor, streams.held_out, held_out_batch, with_weights=not by_id)
        if uses_alignments(tutor.teacher):  # with a gradient that is partly their own
            held_out = held_out._replace(weights=torch.full_like(held_out.losses, float("nan")))
        write_examples(folder / HELD_OUT, material.held_out, held_out)
    result: dict[str, float | int] = {
        "test_accuracy": accuracy(tutor, streams.test),
        "best_test_accuracy": max(entry["test_accuracy"] for entry in history),
        "held_out_accuracy": history[-1]["held_out_accuracy"],
        "held_out_log_likelihood": log_likelihood(tutor, streams.held_out),
        "seconds": cost.seconds,
        "skipped_teacher_steps": tutor.skipped_teacher_steps,
    }
    if cost.memory is not None:
        result["memory"] = cost.memory
    if material.wrong is not None:
        result |= weight_statistics(trained.weights, material.wrong)
    if tutor.teacher_updater is not None:
        provenance = Provenance(
            student=type(tutor.student).__name__,
            data=material.train.name,
            classes=material.train.classes,
            metrics=tuple(result.items()),
            runs=1,
            signal=str(tutor.teacher_updater.signal),
            seeds=(streams.train.seed,),
            **streams.image_facts,
        )
        save_commentary(tutor.teacher, folder / "commentary", provenance, overwrite=True)
    write_json(folder / "result.json", result)


def weight_statistics(weights: Tensor, wrong: Tensor) -> dict[str, float]:
    """Mean weights of right and of wrong labels, and the AUROC between them."""
    statistics = {}
    if bool((~wrong).any()):
        statistics["weight_right"] = float(weights[~wrong].mean())
    if bool(wrong.any()):
        statistics["weight_wrong"] = float(weights[wrong].mean())
    if len(statistics) == 2:
        from scipy.stats import mannwhitneyu  # takes a while, and not every student needs it

        right, bad = weights[~wrong].numpy(), weights[wrong].numpy()
        pairs: Any = mannwhitneyu(right, bad, method="asymptotic")  # ties count half
        statistics["auroc"] = float(pairs.statistic) / (len(right) * len(bad))
    return statistics


def write_examples(
    path: Path, images: Data, evaluation: Evaluation, truth: Tensor | None = None
) -> None:
    """Write a table of examples, one row each, under its name in the data."""
    columns: dict[str, Any] = {
        "id": images.ids.numpy(),
        "given": images.labels.numpy(),
        "predicted": evaluation.predicted.numpy(),
        "loss": evaluation.losses.numpy(),
        "weight": evaluation.weights.numpy(),
    }
    if truth is not None:
        columns["true"] = truth.numpy()
    if isinstance(texts := raw_examples(images), TextSet):
        columns[TEXT] = texts.shown()
    write_by_name(path, images, columns)


def read_examples(path: Path) -> dict[str, np.ndarray]:
    """Read the table that ``write_examples`` wrote."""
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}

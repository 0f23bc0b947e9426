"""What became of a student, and what its teacher makes of every training example."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from tutelage.commentaries import Provenance, save_commentary
from tutelage.functional.student import tapped
from tutelage.losses.objectives import cross_entropy, logits_of, losses_of
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import correct_predictions
from tutelage.storage.json_files import write_json
from tutelage.teacher import taps_of, uses_alignments
from tutelage.teachers import GivenWeights, OutOfFoldTargets
from tutelage.training.forward import gradient_alignments, prediction_lesson
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Step
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.by_name import write_by_name
from tutelage_cli.data.in_memory import InMemory
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.material import Material, Streams
from tutelage_cli.train.texts import Data
from tutelage_cli.train.texts import shown as shown_as

AT_ONCE = 500
"""images in a batch that is only looked at"""
WORST = 1e4
"""nats that one example counts at most in a log-likelihood"""
TEXT = "text"
"""column of the texts themselves, where examples are texts"""
EXAMPLES, HELD_OUT = "examples.parquet", "held-out.parquet"
"""tables of the training and of the held-out examples in a student's folder"""


class Opinion(NamedTuple):
    """Per training example, in the order of the training set."""

    predicted: Tensor
    """[N] class numbers"""
    losses: Tensor
    """[N] against the labels shown, nats"""
    weights: Tensor
    """[N] the teacher's weights, before normalisation"""


class Taken(NamedTuple):
    """What training took."""

    seconds: float
    """time of the student and teacher steps"""
    memory: int | None
    """bytes at the peak, see ``tutelage_cli.train.memory``; None where that is not known"""


@torch.no_grad()
def accuracy(tutor: Tutor, batches: InMemory) -> float:
    """Share of right answers, the student in evaluation mode."""
    student, mode = tutor.student, tutor.student.training
    student.eval()
    right = [
        correct_predictions(
            student(prediction_lesson(tutor.problem, batch).inputs),
            batch.targets,
            counts_of(tutor.problem.objective, batch.targets),
        )
        for batch in batches.whole(AT_ONCE)
    ]
    student.train(mode)
    found = torch.cat(right)
    return int(found.sum()) / max(len(found), 1)


@torch.no_grad()
def log_likelihood(tutor: Tutor, batches: InMemory) -> float:
    """Mean log-likelihood of the labels, the student in evaluation mode."""
    student, mode = tutor.student, tutor.student.training
    student.eval()
    losses = [
        cross_entropy(
            logits_of(student(prediction_lesson(tutor.problem, batch).inputs)), batch.targets
        )
        for batch in batches.whole(AT_ONCE)
    ]
    student.train(mode)
    found = torch.cat(losses).double().nan_to_num(nan=WORST)
    return -float(found.clamp(max=WORST).mean())


@torch.no_grad()
def opinion(
    tutor: Tutor,
    batches: InMemory,
    held_out: Batch | None = None,
    *,
    weighed: bool = True,
) -> Opinion:
    """What student and teacher make of every example, un-augmented, in evaluation mode."""
    student, task = tutor.student, tutor.problem
    mode = student.training
    student.eval()
    parts = []
    for batch in batches.whole(AT_ONCE):
        lesson = prediction_lesson(task, batch)
        with tapped(student, taps_of(tutor.teacher)) as features:
            outputs = student(lesson.inputs)
        logits, losses = logits_of(outputs), losses_of(task.objective, outputs, batch)
        seen = Observation(losses, logits, features, tutor.progress)
        if uses_alignments(tutor.teacher) and held_out is not None:
            step = Step(batch, tutor.progress, {})
            alignments = gradient_alignments(task, lesson, step, held_out)
            seen = seen._replace(alignments=alignments)
        weights = torch.full_like(losses, float("nan"))
        if weighed:
            weights = task.weights({}, lesson, seen, batch.seed)
        parts.append((logits.argmax(1), losses, weights))
    student.train(mode)
    return Opinion(*(torch.cat(column).cpu() for column in zip(*parts, strict=True)))


def judge(
    folder: Path,
    tutor: Tutor,
    streams: Streams,
    material: Material,
    history: Sequence[dict[str, float | int]],
    taken: Taken,
    *,
    counted: Tensor | None = None,
    on_checked: bool = False,
) -> None:
    """Write a finished student's result, its teacher and tables of its examples.

    What it says of held-out examples, which it was not trained on, is what its opinion of the
    others is measured by.
    """
    judges = streams.held_out.draw(tutor.steps)
    seen = opinion(tutor, streams.train, judges)
    if counted is not None:
        seen = seen._replace(weights=counted)
    write_examples(folder / EXAMPLES, material.train, seen, material.truth)
    if not on_checked:
        # these have weights for the others alone
        by_id = isinstance(tutor.teacher, GivenWeights | OutOfFoldTargets)
        unseen = opinion(tutor, streams.held_out, judges, weighed=not by_id)
        if uses_alignments(tutor.teacher):  # with a gradient that is partly their own
            unseen = unseen._replace(weights=torch.full_like(unseen.losses, float("nan")))
        write_examples(folder / HELD_OUT, material.held_out, unseen)
    result: dict[str, float | int] = {
        "test_accuracy": accuracy(tutor, streams.test),
        "best_test_accuracy": max(entry["test_accuracy"] for entry in history),
        "held_out_accuracy": history[-1]["held_out_accuracy"],
        "held_out_log_likelihood": log_likelihood(tutor, streams.held_out),
        "seconds": taken.seconds,
        "skipped_teacher_steps": tutor.skipped_teacher_steps,
    }
    if taken.memory is not None:
        result["memory"] = taken.memory
    if material.wrong is not None:
        result |= trust(seen.weights, material.wrong)
    if tutor.teacher_updater is not None:
        came = Provenance(
            student=type(tutor.student).__name__,
            data=material.train.name,
            classes=material.train.classes,
            metrics=tuple(result.items()),
            runs=1,
        )
        if isinstance(streams.train, Batches):
            came = came._replace(
                mean=tuple(streams.train.mean.tolist()),
                std=tuple(streams.train.std.tolist()),
                sides=tuple(streams.train.images.images.shape[2:]),
            )
        save_commentary(tutor.teacher, folder / "commentary", came)
    write_json(folder / "result.json", result)


def trust(weights: Tensor, wrong: Tensor) -> dict[str, float]:
    """How well weights tell right from wrong labels."""
    found = {}
    if bool((~wrong).any()):
        found["weight_right"] = float(weights[~wrong].mean())
    if bool(wrong.any()):
        found["weight_wrong"] = float(weights[wrong].mean())
    if len(found) == 2:
        from sklearn.metrics import (
            roc_auc_score,
        )  # takes seconds, which not every student needs

        found["auroc"] = float(roc_auc_score((~wrong).numpy(), weights.numpy()))
    return found


def write_examples(
    path: Path, images: Data, seen: Opinion, truth: Tensor | None = None
) -> None:
    """Write a table of examples, one row each, under its name in the data."""
    columns: dict[str, Any] = {
        "id": images.ids.numpy(),
        "given": images.labels.numpy(),
        "predicted": seen.predicted.numpy(),
        "loss": seen.losses.numpy(),
        "weight": seen.weights.numpy(),
    }
    if truth is not None:
        columns["true"] = truth.numpy()
    if isinstance(texts := shown_as(images), TextSet):
        columns[TEXT] = texts.shown()
    write_by_name(path, images, columns)


def read_examples(path: Path) -> dict[str, np.ndarray]:
    """Read the table that ``write_examples`` wrote."""
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}

"""Predictions for every training example by a student that was not trained on it."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tutelage.crossfit import estimate_transitions, refined_transitions, stratified_folds
from tutelage.losses.objectives import logits_of
from tutelage.randomness import mixed_seed
from tutelage.storage.atomic_files import atomic_path
from tutelage.storage.checkpoint import digest, name_damaged_file
from tutelage.storage.json_files import write_json
from tutelage.training.tutor import Tutor
from tutelage_cli.data.in_memory import InMemory
from tutelage_cli.train.evaluation import AT_ONCE
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material, Streams
from tutelage_cli.train.settings import TrainSettings

FOLDS = 5
"""parts of the training set, each predicted by a student of the others"""
PLAIN, CORRECTED, REFINED = "folds", "corrected-folds", "refined-folds"
"""students of folds: untaught ones, ones of the forward corrected loss, and ones of that loss
with transitions that all training examples refine"""
UNSEEN = "unseen.npz"
_PART = 12
"""keeps the seeds of these folds apart from others"""


class Unseen(NamedTuple):
    """What the students of all folds predict."""

    train: Float[Tensor, "N C"]
    """for each training example, by the student that was not trained on it"""
    checked: Float[Tensor, "H C"]
    """for each checked example, the mean of all students"""
    seconds: float
    """of all their steps"""


def fold_settings(settings: TrainSettings) -> TrainSettings:
    """The settings of a student of a fold: a third of the epochs, rounded up."""
    return replace(settings, epochs=-(-settings.epochs // 3))


def folds_of(material: Material, seed: int) -> Tensor:
    """The fold of each training example; the given labels are spread evenly."""
    labels = material.train.labels
    return stratified_folds(labels, FOLDS, seed=mixed_seed(_PART, seed))


def fold_jobs(job: Job, arm: str) -> list[Job]:
    """The students of all folds."""
    return [job.of(arm, fold) for fold in range(FOLDS)]


def fold_seed(job: Job) -> int:
    """The seed of a fold's student: of its first weights and the order of its batches."""
    assert job.fold is not None
    return mixed_seed(_PART, job.seed, job.fold)


def write_unseen(
    job: Job, tutor: Tutor, streams: Streams, material: Material, seconds: float
) -> None:
    """Write what a fold's student predicts, and its result."""
    mine = folds_of(material, job.seed) == job.fold
    ours = probabilities(tutor, streams.train)[mine].numpy()
    checked = probabilities(tutor, streams.held_out).numpy()
    content = np.array(_content(material))
    with atomic_path(job.folder / UNSEEN) as part, part.open("wb") as file:
        np.savez(file, train=ours, checked=checked, content=content)
    write_json(job.folder / "result.json", {"seconds": seconds})


def read_unseen(job: Job, arm: str, material: Material) -> Unseen:
    """Put together what the students of all folds predict."""
    folds, classes = folds_of(material, job.seed), len(material.train.classes)
    train, checked, seconds = torch.empty(len(folds), classes), [], 0.0
    for one in fold_jobs(job, arm):
        ours, others, took = _read(one.folder, _content(material))
        train[folds == one.fold] = ours
        checked.append(others)
        seconds += took
    return Unseen(train, torch.stack(checked).mean(0), seconds)


def transitions_of(unseen: Unseen, material: Material) -> Float[Tensor, "C C"]:
    """Which given label each class gets, as the checked examples show."""
    return estimate_transitions(unseen.checked, material.held_out.labels)


def refined_by(unseen: Unseen, material: Material, rough: Tensor) -> Float[Tensor, "C C"]:
    """The transitions as all training examples show them."""
    return refined_transitions(unseen.train, rough, material.train.labels)


@torch.no_grad()
def probabilities(tutor: Tutor, batches: InMemory) -> Float[Tensor, "N C"]:
    """What a student says of examples, in evaluation mode and as they are."""
    student = tutor.student.eval()
    found = [logits_of(student(batch.inputs)) for batch in batches.whole(AT_ONCE)]
    return torch.cat(found).float().softmax(1).cpu()


def _content(material: Material) -> str:
    # which examples, under which labels, predictions are for
    train, checked = material.train, material.held_out
    return digest([train.ids, train.labels, checked.ids, checked.labels])


def _read(folder: Path, content: str) -> tuple[Tensor, Tensor, float]:
    file = folder / UNSEEN
    remedy = f"Delete {folder / 'result.json'}, then go on: it is made again."
    with name_damaged_file(file, remedy):
        try:
            held = io.BytesIO(file.read_bytes())  # numpy leaves damaged files open
            with np.load(held, allow_pickle=False) as stored:
                if str(stored["content"]) != content:
                    raise ValueError("it is about other examples or labels")
                ours, others = (torch.from_numpy(stored[n]) for n in ("train", "checked"))
            seconds = json.loads((folder / "result.json").read_text("utf-8"))["seconds"]
        except OSError as error:
            raise ValueError(str(error)) from error
    return ours, others, float(seconds)

"""Predictions for every training example by a student that was not trained on it."""

import io
import json
import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tutelage.crossfit import FoldPredictions, StagePredictions, stratified_folds
from tutelage.crossfit.chance import Predicted
from tutelage.crossfit.fold_settings import (
    STRONGER,
    TRIED,
    VERSION,
    FoldSettings,
    distilled_tried,
)
from tutelage.crossfit.stages import FoldStages
from tutelage.errors import UsageError
from tutelage.losses.objectives import logits_of
from tutelage.randomness import mixed_seed
from tutelage.storage.atomic_files import atomic_path
from tutelage.storage.checkpoint import digest, name_damaged_file
from tutelage.storage.json_files import write_json
from tutelage.training.tutor import Tutor
from tutelage_cli.data.batches import SeededBatches
from tutelage_cli.runner.run_folder import exists
from tutelage_cli.train.evaluation import EVAL_BATCH_SIZE
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Material, Streams

STAGES = PLAIN, CORRECTED, DISTILLED = "folds", "corrected-folds", "distilled-folds"
"""students of folds: untaught ones, which go on under the forward corrected loss, and fresh
ones, trained on the posteriors by the corrected ones"""
TRIALS = "fold-trials"
"""untaught students of the first fold, one for each of ``TRIED``, and of ``STRONGER``; the best
of ``TRIED`` is the first of ``PLAIN``"""
DISTILLED_TRIALS = "distilled-trials"
"""students of the first fold's posteriors, one for each of ``distilled_tried``"""

CHECKPOINTS = 6
"""pieces of their training between which the learning rate decays and progress is saved"""
PREDICTIONS = "out-of-fold.npz"
KEY = "log_likelihood"
CORRECT, COUNTS = "correct", "given_counts"
"""of a fold's given labels: how many its student predicts, and how many there are of each"""
SEED_OF_FOLDS = 12
"""keeps the seeds of these folds apart from others"""


def folds_of(material: Material, job: Job) -> Tensor:
    """The fold of each training example; the given labels are spread evenly."""
    labels = material.train.labels
    return stratified_folds(
        labels, job.settings.folds, seed=mixed_seed(SEED_OF_FOLDS, job.seed)
    )


def fold_stages_of(material: Material, job: Job) -> FoldStages:
    """What the students of folds are trained on."""
    folds = folds_of(material, job)
    return FoldStages(material.train.labels, folds, material.held_out.labels)


def trial_jobs(job: Job, *, stronger: bool = False) -> list[Job]:
    """A student of the first fold for each of the settings to choose from."""
    count = len(TRIED) + stronger
    return [job.with_arm(TRIALS, place) for place in range(count)]


def tried_by(job: Job) -> FoldSettings:
    """How a student of ``TRIALS`` trains."""
    assert job.fold is not None
    return (*TRIED, STRONGER)[job.fold]


def write_trial_result(
    job: Job, tutor: Tutor, streams: Streams, material: Material, seconds: float
) -> None:
    """Write how well a student predicts the given labels of the first fold."""
    data = fold_stages_of(material, job)
    predictions = predict_probabilities(tutor, streams.train)[data.folds == 0]
    finite = bool(predictions.isfinite().all())
    likelihood = data.likelihood(predictions) if finite else None
    result = {KEY: likelihood, "seconds": seconds, **tried_by(job)._asdict()}
    write_json(job.folder / "result.json", result)


def chosen_settings(job: Job, *, stronger: bool = False) -> FoldSettings:
    """The settings whose student predicts given labels best, the first of those alike."""
    trials = trial_jobs(job, stronger=stronger)
    likelihoods = {tried_by(one): read_trial(one)[0] for one in trials}
    if max(likelihoods.values()) == -math.inf:
        raise UsageError(
            f"All untaught students of a fold of seed {job.seed} diverged. Lower --lr (now "
            f"{job.settings.lr:g})."
        )
    return max(likelihoods, key=likelihoods.__getitem__)


def chosen_trial(job: Job) -> Job:
    """The student of the first fold that trained with the chosen settings."""
    return trial_jobs(job)[TRIED.index(chosen_settings(job))]


def distilled_trial_jobs(job: Job) -> list[Job]:
    """A student for each weight decay to choose from; the second may have nothing to try."""
    return [job.with_arm(DISTILLED_TRIALS, place) for place in range(2)]


def chosen_distilled(job: Job, material: Material) -> FoldSettings:
    """The settings of distilled students."""
    tried = distilled_tried(chosen_settings(job))
    contents = content_digests(material)
    jobs = zip(tried, distilled_trial_jobs(job), strict=False)
    predictions = {of: read_predictions(one, contents).checked for of, one in jobs}
    return fold_stages_of(material, job).distilled_choice(predictions)


def seconds_of_trials(job: Job, *, stronger: bool = False) -> float:
    """Seconds of all students that settings were chosen by."""
    return sum(read_trial(one)[1] for one in trial_jobs(job, stronger=stronger))


def fold_jobs(job: Job, arm: str) -> list[Job]:
    """The students of all folds."""
    return [job.with_arm(arm, fold) for fold in range(job.settings.folds)]


def fold_of(job: Job) -> int:
    """The fold that a student predicts; trials predict the first."""
    assert job.fold is not None
    return 0 if job.arm in (TRIALS, DISTILLED_TRIALS) else job.fold


def fold_seed(job: Job) -> int:
    """The seed of a fold's student: of its first weights and the order of its batches."""
    return mixed_seed(SEED_OF_FOLDS, job.seed, fold_of(job))


def write_out_of_fold(
    job: Job, tutor: Tutor, streams: Streams, material: Material, seconds: float
) -> None:
    """Write what a fold's student predicts, and its result."""
    own_fold = folds_of(material, job) == fold_of(job)
    ours = predict_probabilities(tutor, streams.train)[own_fold]
    given = material.train.labels[own_fold]
    checked = predict_probabilities(tutor, streams.held_out).numpy()
    (content,) = map(np.array, content_digests(material))
    with atomic_path(job.folder / PREDICTIONS) as part, part.open("wb") as file:
        np.savez(file, train=ours.numpy(), checked=checked, content=content)
    correct, counts = int((ours.argmax(1) == given).sum()), given.bincount().tolist()
    result = {"seconds": seconds, CORRECT: correct, COUNTS: counts}
    write_json(job.folder / "result.json", result)


def held_back(job: Job) -> Predicted | None:
    """How plain students of folds predict given labels; None where that is not recorded."""
    jobs = fold_jobs(job, PLAIN)
    if not all(exists(one.folder / "result.json") for one in jobs):
        return None
    results = [_result(one) for one in jobs]
    if not all({CORRECT, COUNTS} <= result.keys() for result in results):
        return None  # of an earlier release
    counts = [sum(of) for of in zip_longest(*(r[COUNTS] for r in results), fillvalue=0)]
    return Predicted(sum(result[CORRECT] for result in results), max(counts), sum(counts))


def read_out_of_fold(
    job: Job, arm: str, material: Material, versions: Sequence[int] = (VERSION,)
) -> StagePredictions:
    """Put together what the students of all folds predict."""
    contents = content_digests(material, versions)
    each = [read_predictions(one, contents) for one in fold_jobs(job, arm)]
    return fold_stages_of(material, job).combine_folds(each)


def seconds_of_folds(job: Job, arm: str) -> float:
    """Seconds of all students of folds, and of what chose their settings."""
    jobs = fold_jobs(job, arm) + (distilled_trial_jobs(job) if arm == DISTILLED else [])
    seconds = sum(_result(one, "seconds")["seconds"] for one in jobs)
    return seconds + (seconds_of_trials(job) if arm == PLAIN else 0.0)


@torch.no_grad()
def predict_probabilities(tutor: Tutor, batches: SeededBatches) -> Float[Tensor, "N C"]:
    """What a student says of examples, in evaluation mode and as they are."""
    student = tutor.student.eval()
    logits = [logits_of(student(batch.inputs)) for batch in batches.whole(EVAL_BATCH_SIZE)]
    return torch.cat(logits).float().softmax(1).cpu()


def read_trial(job: Job) -> tuple[float, float]:
    """Log-likelihood of given labels, -inf for one that diverged, and seconds."""
    result = _result(job, KEY, "seconds")
    if result[KEY] is None:
        return -math.inf, float(result["seconds"])
    return float(result[KEY]), float(result["seconds"])


def _result(job: Job, *names: str) -> dict[str, Any]:
    file = job.folder / "result.json"
    with name_damaged_file(file, _remedy(job)):
        try:
            result = json.loads(file.read_text("utf-8"))
        except OSError as error:
            raise ValueError(str(error)) from error
        expected = tried_by(job)._asdict() if job.arm == TRIALS else {}
        diverged = KEY in result and result[KEY] is None
        if not diverged and any(result.get(key) != of for key, of in expected.items()):
            raise ValueError("it was trained with settings of another version")
        if missing := [name for name in names if name not in result]:
            raise ValueError(f"it lacks {missing[0]}")
        return result


def content_digests(material: Material, versions: Sequence[int] = (VERSION,)) -> list[str]:
    """Digests of the examples and labels that predictions are for, by some versions."""
    train, checked = material.train, material.held_out
    content = [train.ids, train.labels, checked.ids, checked.labels]
    return [digest([version, *content]) for version in versions]


def _remedy(job: Job) -> str:
    return f"Delete {job.folder}, then go on with --resume {job.run}: it is made again."


def read_predictions(job: Job, contents: Sequence[str]) -> FoldPredictions:
    """What a student of a fold predicts, of the data with one of these digests."""
    file = job.folder / PREDICTIONS
    with name_damaged_file(file, _remedy(job)):
        try:
            buffer = io.BytesIO(file.read_bytes())  # numpy leaves damaged files open
            with np.load(buffer, allow_pickle=False) as stored:
                if str(stored["content"]) not in contents:
                    raise ValueError(
                        "it is about other examples or labels, or of another version"
                    )
                parts = (torch.from_numpy(stored[name]) for name in ("train", "checked"))
                return FoldPredictions(*parts)
        except OSError as error:
            raise ValueError(str(error)) from error

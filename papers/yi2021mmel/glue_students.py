"""Text classifiers that see copies of every text: data, labels of copies, and a run."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import ConstantInputWarning, spearmanr
from sklearn.metrics import accuracy_score, matthews_corrcoef
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from papers.data.text import TextBatches
from papers.framework.recipe import Outcome
from papers.framework.settings import CountOrZero, Positive, RecipeSettings, Share
from papers.students import fit, predictions
from papers.yi2021mmel.copies import Temperature, weigher
from papers.yi2021mmel.glue_texts import Material, Source, bare, copies_of, material
from papers.yi2021mmel.language_models import encoder
from tutelage.losses.objectives import Objective, cross_entropy, squared_error
from tutelage.models.text_classifier import SMALL, text_classifier
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import (
    CombinedTeacher,
    LabelPreservingTarget,
    Plain,
    StoredCopies,
    predicted,
)
from tutelage.teachers.worst_case_soft import class_probabilities, own_prediction
from tutelage.training.tutor import Tutor

METRICS = {
    "score": "of held-out texts by the task's own measure, at the end, %",
    "loss": "of held-out texts at the end, nats (squared error for numbers)",
    "best": "score of the best epoch, %",
    "fitted": "the same measure on the training texts at the end, %",
}


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The share of right predictions, %."""
    return 100 * float(accuracy_score(labels, predicted))


def matthews(predicted: Tensor, labels: Tensor) -> float:
    """Matthews' correlation, %; 0 where all have one label."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return 100 * float(matthews_corrcoef(labels, predicted))


def spearman(predicted: Tensor, labels: Tensor) -> float:
    """Spearman's rank correlation, %; 0 where all are the same."""
    with warnings.catch_warnings(action="ignore", category=ConstantInputWarning):
        found: Any = spearmanr(predicted, labels)
    return 100 * float(np.nan_to_num(found.statistic))


SCORES = {"cola": matthews, "stsb": spearman}
"""of a task's development set, as papers on BERT print it, where that is not the accuracy"""
LARGE = ("mnli", "qqp")
"""tasks that the paper trains on for 3 epochs, by the names of their folders"""
NEW = "small"
WIDTH = 128
"""hidden units of a student of vectors"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    source: Source = field(default_factory=Source)  # texts and their copies
    student: str = ""
    """folder of an encoder of transformers, or its name in ``$TUTELAGE_DATA``; nothing: that of
    the texts' language model; ``small``, and nothing without one: a small new student. Where
    ``source.vectors``, it is a perceptron of one hidden layer"""
    dropout: Share = 0.1  # in hidden layers and attention; the paper chose each from 0 and 0.1
    temperature: Temperature = 1.0  # lambda_P
    weight: Positive = 1.0  # lambda_T
    smoothing: Share = 0.1  # of labels, where they are smoothed
    batch: int = 32  # texts, each with its copies
    epochs: int | None = None  # None: 3 for the tasks of ``LARGE``, 10 for others
    lr: float = 3e-5  # of AdamW at its height; falls to 0 in a line
    warm_up: CountOrZero = 0  # steps in which it rises

    @property
    def epochs_or_default(self) -> int:
        """Times that every text is seen, the default filled in."""
        if self.epochs is not None:
            return self.epochs
        return 3 if Path(self.source.task).name in LARGE else 10


class Method(NamedTuple):
    """How copies count, and which labels they have."""

    loss: str  # ``none``, ``long``, ``smoothed``, ``uniform``, ``hard`` or ``soft``
    labels: str = "predicted"
    """``predicted`` by a student that was trained without copies, or ``original``"""


class _Kind(NamedTuple):
    # what differs between classes and numbers
    objective: Objective
    predict: Callable[[Tensor], Tensor]
    answer: Callable[[Tensor], Tensor]


_NUMBER = partial(torch.squeeze, dim=1)
CLASSES = _Kind(cross_entropy, class_probabilities, partial(torch.argmax, dim=1))
NUMBERS = _Kind(squared_error, _NUMBER, _NUMBER)


def _kind(material: Material) -> _Kind:
    return CLASSES if material.classes > 1 else NUMBERS


def student_of(settings: Settings, texts: Material, seed: int) -> nn.Module:
    """The student before it has learned anything of the task."""
    name = settings.student or settings.source.model or NEW
    with seeded(mixed_seed(seed, 0)):
        if settings.source.vectors:
            return _head(texts.train.inputs.shape[1], texts.classes, settings.dropout)
        if name != NEW:
            kept = {"classes": texts.classes, "dropout": settings.dropout}
            return encoder(name, words=texts.tokenizer, **kept)
        words = max(len(texts.tokenizer), int(texts.train.inputs[:, 0].max()) + 1)
        small = SMALL | {"vocab_size": words}
        return text_classifier(small, classes=texts.classes, dropout=settings.dropout)


def _head(features: int, classes: int, dropout: float) -> nn.Sequential:
    # a perceptron of sentence vectors
    hidden = (nn.Dropout(dropout), nn.Linear(features, WIDTH), nn.ReLU())
    return nn.Sequential(*hidden, nn.Dropout(dropout), nn.Linear(WIDTH, classes))


def trained(
    methods: Mapping[str, Method], arm: str, seed: int, settings: Settings, device: torch.device
) -> Outcome:
    """Train one student."""
    method = methods[arm]
    if method.loss == "none":
        return _plain(seed, _without_copies(settings), device)[1]
    texts = material(settings.source)
    objective = _kind(texts).objective
    if method.loss == "smoothed" and texts.classes > 1:
        objective = partial(
            F.cross_entropy, reduction="none", label_smoothing=settings.smoothing
        )
    student = student_of(settings, texts, seed).to(device)
    batches, teacher = _batches(settings, texts, seed, device), Plain()
    if method.loss != "smoothed":
        labels = None if method.labels == "original" else _labels(seed, settings, device)
        if method.loss == "long":
            batches = _all_alike(settings, texts, labels, seed, device)
        else:
            teacher = _teacher(method, settings, texts, labels)
    return _run(student, teacher, batches, objective, seed, settings)


def _without_copies(settings: Settings) -> Settings:
    return replace(settings, source=bare(settings.source))


@cache
def _plain(seed: int, settings: Settings, device: torch.device) -> tuple[nn.Module, Outcome]:
    # the student without copies, which predicts their labels
    texts = material(settings.source)
    student = student_of(settings, texts, seed).to(device)
    batches = _batches(settings, texts, seed, device)
    return student, _run(student, Plain(), batches, _kind(texts).objective, seed, settings)


@cache
def _labels(seed: int, settings: Settings, device: torch.device) -> tuple[Tensor, Tensor]:
    # of the training texts [N, ...], and of their copies [N, K, ...]
    texts, copies = material(settings.source), copies_of(settings.source)
    student, predict = _plain(seed, _without_copies(settings), device)[0], _kind(texts).predict
    own = predicted(student, texts.train.inputs, predict=predict)
    theirs = predicted(student, copies.flatten(0, 1), predict=predict)
    return own, theirs.view(*copies.shape[:2], *theirs.shape[1:])


def _teacher(
    method: Method, settings: Settings, texts: Material, labels: tuple[Tensor, Tensor] | None
) -> nn.Module:
    theirs = None if labels is None else labels[1]
    stored = StoredCopies(copies_of(settings.source), texts.ids, theirs)
    kind = _kind(texts)
    rule = own_prediction if labels is None else LabelPreservingTarget(labels[0], texts.ids)
    soft = {"rule": rule, "objective": kind.objective, "predict": kind.predict}
    return CombinedTeacher(
        stored, weigher(method.loss, settings.temperature, settings.weight, **soft)
    )


def _batches(
    settings: Settings, texts: Material, seed: int, device: torch.device
) -> TextBatches:
    inputs, labels = texts.train.inputs, texts.labels
    return TextBatches(inputs, labels, texts.ids, settings.batch, mixed_seed(seed, 1), device)


def _all_alike(
    settings: Settings,
    texts: Material,
    labels: tuple[Tensor, Tensor] | None,
    seed: int,
    device: torch.device,
) -> TextBatches:
    # copies among the texts, as if they were others
    copies = copies_of(settings.source)
    k, own = copies.shape[1], texts.labels
    found = own.repeat_interleave(k) if labels is None else labels[1].flatten(0, 1)
    if found.ndim == 2:
        own = F.one_hot(own, texts.classes).to(found.dtype)
    inputs = torch.cat([texts.train.inputs, copies.flatten(0, 1)])
    rows, order = torch.arange(len(inputs)), mixed_seed(seed, 1)
    return TextBatches(inputs, torch.cat([own, found]), rows, settings.batch, order, device)


def _run(
    student: nn.Module,
    teacher: nn.Module,
    batches: TextBatches,
    objective: Objective,
    seed: int,
    settings: Settings,
) -> Outcome:
    rule = AdamW(student.parameters(), settings.lr, weight_decay=0.0)

    def clip(*_: object) -> None:
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)

    rule.register_step_pre_hook(clip)
    steps = settings.epochs_or_default * len(batches)
    schedule = LambdaLR(rule, partial(_line, steps=steps, warm_up=settings.warm_up))
    tutor = Tutor(student, rule, teacher, objective=objective, seed=mixed_seed(seed, 2))
    texts = material(settings.source)
    curves: Mapping[str, list[float]] = {"score": [], "loss": []}

    def judge() -> None:
        score, loss = _evaluate(student, texts.held_out.inputs, texts.judging, settings)
        curves["score"].append(score)
        curves["loss"].append(loss)

    fit(
        tutor, batches, settings.epochs_or_default, schedule, every_step=True, after_epoch=judge
    )
    fitted, _ = _evaluate(student, texts.train.inputs, texts.labels, settings)
    ends = {"score": curves["score"][-1], "loss": curves["loss"][-1]}
    return Outcome(ends | {"best": max(curves["score"]), "fitted": fitted}, curves)


def _line(step: int, steps: int, warm_up: int) -> float:
    rising = min(1.0, (step + 1) / warm_up) if warm_up else 1.0
    return rising * max(0.0, 1 - step / steps)


def _evaluate(
    student: nn.Module, inputs: Tensor, labels: Tensor, settings: Settings
) -> tuple[float, float]:
    texts, kind = material(settings.source), _kind(material(settings.source))
    device = next(student.parameters()).device
    rows = TextBatches(inputs, labels, torch.arange(len(labels)), 1, 0, device)
    outputs, right = (x.cpu() for x in predictions(student, rows.whole(128)))
    usual = accuracy if texts.classes > 1 else spearman
    score = SCORES.get(Path(settings.source.task).name, usual)
    return score(kind.answer(outputs), right), float(kind.objective(outputs, right).mean())

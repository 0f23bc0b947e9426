"""Training text classifiers on copies of texts: labels of copies, teacher, loop, scores."""

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
from papers.yi2021mmel.glue_texts import Material, Source, copies_of, material, without_copies
from papers.yi2021mmel.language_models import encoder
from tutelage.errors import UsageError
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
    "score": "on held-out texts by the task's own measure, at the end of training, %",
    "loss": "on held-out texts at the end of training, nats (squared error for regression)",
    "best": "score at the best epoch, %",
    "fitted": "the same measure on the training texts at the end of training, %",
}


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """The share of correct predictions, %."""
    return 100 * float(accuracy_score(labels, predicted))


def matthews(predicted: Tensor, labels: Tensor) -> float:
    """Matthews' correlation, %; 0 if all predictions or all labels are equal."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return 100 * float(matthews_corrcoef(labels, predicted))


def spearman(predicted: Tensor, labels: Tensor) -> float:
    """Spearman's rank correlation, %; 0 if all predictions or all labels are equal."""
    with warnings.catch_warnings(action="ignore", category=ConstantInputWarning):
        correlation: Any = spearmanr(predicted, labels)
    return 100 * float(np.nan_to_num(correlation.statistic))


SCORES = {"cola": matthews, "stsb": spearman}
"""the measure of tasks whose measure in papers on BERT is not the accuracy"""
LARGE = ("mnli", "qqp")
"""tasks that the paper trains on for 3 epochs, by the names of their folders"""
NEW = "small"  # the student that is trained from scratch
WIDTH = 128
"""hidden units of the perceptron on sentence vectors"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    source: Source = field(default_factory=Source)  # texts and their copies
    student: str = ""
    """encoder of transformers: a folder, or its name in ``$TUTELAGE_DATA``; empty:
    ``source.model``; ``small``, or both empty: a small one, trained from scratch. Refused with
    ``source.vectors``: then the student is a perceptron with one hidden layer"""
    dropout: Share = 0.1  # in hidden layers and attention; the paper chose each from 0 and 0.1
    temperature: Temperature = 1.0  # lambda_P
    weight: Positive = 1.0  # lambda_T
    smoothing: Share = 0.1  # of labels, in the arm ``smoothed``
    batch: int = 32  # texts, each with its copies
    epochs: int | None = None  # None: 3 for the tasks of ``LARGE``, 10 for others
    lr: float = 3e-5  # of AdamW, the largest; decays linearly to 0
    warm_up: CountOrZero = 0  # steps of linear warm-up

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.student and self.source.vectors:
            raise UsageError(
                f"student is {self.student}, but with source.vectors it is a perceptron: leave "
                "one of the two out."
            )

    @property
    def epochs_or_default(self) -> int:
        """``epochs``, or the paper's number for the task."""
        if self.epochs is not None:
            return self.epochs
        return 3 if Path(self.source.task).name in LARGE else 10


class Method(NamedTuple):
    """How copies enter the loss, and which labels they have."""

    loss: str  # ``none``, ``long``, ``smoothed``, ``uniform``, ``hard`` or ``soft``
    labels: str = "predicted"
    """``predicted`` by a student that was trained without copies, or ``original``"""


class _TaskKind(NamedTuple):
    # what differs between classification and regression
    objective: Objective
    soft_label: Callable[[Tensor], Tensor]  # from the student's outputs, for copies
    prediction: Callable[[Tensor], Tensor]  # from the student's outputs, for scores


_NUMBER = partial(torch.squeeze, dim=1)
CLASSES = _TaskKind(cross_entropy, class_probabilities, partial(torch.argmax, dim=1))
NUMBERS = _TaskKind(squared_error, _NUMBER, _NUMBER)


def _task_kind(material: Material) -> _TaskKind:
    return CLASSES if material.classes > 1 else NUMBERS


def student_of(settings: Settings, texts: Material, seed: int) -> nn.Module:
    """A new student, of which only a pretrained encoder has been trained."""
    name = settings.student or settings.source.model or NEW
    with seeded(mixed_seed(seed, 0)):
        if settings.source.vectors:
            return _perceptron(texts.train.inputs.shape[1], texts.classes, settings.dropout)
        if name != NEW:
            options = {"classes": texts.classes, "dropout": settings.dropout}
            return encoder(name, tokenizer=texts.tokenizer, **options)
        vocab_size = max(len(texts.tokenizer), int(texts.train.inputs[:, 0].max()) + 1)
        small = SMALL | {"vocab_size": vocab_size}
        return text_classifier(small, classes=texts.classes, dropout=settings.dropout)


def _perceptron(features: int, classes: int, dropout: float) -> nn.Sequential:
    hidden = (nn.Dropout(dropout), nn.Linear(features, WIDTH), nn.ReLU())
    return nn.Sequential(*hidden, nn.Dropout(dropout), nn.Linear(WIDTH, classes))


def trained(
    methods: Mapping[str, Method], arm: str, seed: int, settings: Settings, device: torch.device
) -> Outcome:
    """Train the student of one arm and seed."""
    method = methods[arm]
    if method.loss == "none":
        return _plain(seed, _without_copies(settings), device)[1]
    texts = material(settings.source)
    objective = _task_kind(texts).objective
    if method.loss == "smoothed" and texts.classes > 1:
        objective = partial(
            F.cross_entropy, reduction="none", label_smoothing=settings.smoothing
        )
    student = student_of(settings, texts, seed).to(device)
    batches, teacher = _batches(settings, texts, seed, device), Plain()
    if method.loss != "smoothed":
        labels = None if method.labels == "original" else _labels(seed, settings, device)
        if method.loss == "long":
            batches = _with_copies(settings, texts, labels, seed, device)
        else:
            teacher = _teacher(method, settings, texts, labels)
    return _run(student, teacher, batches, objective, seed, settings)


def _without_copies(settings: Settings) -> Settings:
    return replace(settings, source=without_copies(settings.source))


@cache
def _plain(seed: int, settings: Settings, device: torch.device) -> tuple[nn.Module, Outcome]:
    # the student trained without copies, which predicts their labels
    texts = material(settings.source)
    student = student_of(settings, texts, seed).to(device)
    batches = _batches(settings, texts, seed, device)
    return student, _run(student, Plain(), batches, _task_kind(texts).objective, seed, settings)


@cache
def _labels(seed: int, settings: Settings, device: torch.device) -> tuple[Tensor, Tensor]:
    # predicted labels of the training texts [N, ...] and of their copies [N, K, ...]
    texts, copies = material(settings.source), copies_of(settings.source)
    student, predict = (
        _plain(seed, _without_copies(settings), device)[0],
        _task_kind(texts).soft_label,
    )
    own = predicted(student, texts.train.inputs, predict=predict)
    theirs = predicted(student, copies.flatten(0, 1), predict=predict)
    return own, theirs.view(*copies.shape[:2], *theirs.shape[1:])


def _teacher(
    method: Method, settings: Settings, texts: Material, labels: tuple[Tensor, Tensor] | None
) -> nn.Module:
    theirs = None if labels is None else labels[1]
    stored = StoredCopies(copies_of(settings.source), texts.ids, theirs)
    kind = _task_kind(texts)
    rule = own_prediction if labels is None else LabelPreservingTarget(labels[0], texts.ids)
    soft = {"rule": rule, "objective": kind.objective, "predict": kind.soft_label}
    return CombinedTeacher(
        stored, weigher(method.loss, settings.temperature, settings.weight, **soft)
    )


def _batches(
    settings: Settings, texts: Material, seed: int, device: torch.device
) -> TextBatches:
    inputs, labels = texts.train.inputs, texts.labels
    return TextBatches(inputs, labels, texts.ids, settings.batch, mixed_seed(seed, 1), device)


def _with_copies(
    settings: Settings,
    texts: Material,
    labels: tuple[Tensor, Tensor] | None,
    seed: int,
    device: torch.device,
) -> TextBatches:
    # texts and their copies as examples of one larger data set
    copies = copies_of(settings.source)
    k, own = copies.shape[1], texts.labels
    of_copies = own.repeat_interleave(k) if labels is None else labels[1].flatten(0, 1)
    if of_copies.ndim == 2:
        own = F.one_hot(own, texts.classes).to(of_copies.dtype)
    inputs = torch.cat([texts.train.inputs, copies.flatten(0, 1)])
    rows, order = torch.arange(len(inputs)), mixed_seed(seed, 1)
    return TextBatches(inputs, torch.cat([own, of_copies]), rows, settings.batch, order, device)


def _run(
    student: nn.Module,
    teacher: nn.Module,
    batches: TextBatches,
    objective: Objective,
    seed: int,
    settings: Settings,
) -> Outcome:
    optimizer = AdamW(student.parameters(), settings.lr, weight_decay=0.0)

    def clip(*_: object) -> None:
        nn.utils.clip_grad_norm_(student.parameters(), 1.0)

    optimizer.register_step_pre_hook(clip)
    steps = settings.epochs_or_default * len(batches)
    schedule = LambdaLR(optimizer, partial(_lr_factor, steps=steps, warm_up=settings.warm_up))
    tutor = Tutor(student, optimizer, teacher, objective=objective, seed=mixed_seed(seed, 2))
    texts = material(settings.source)
    curves: Mapping[str, list[float]] = {"score": [], "loss": []}

    def evaluate_epoch() -> None:
        score, loss = _evaluate(student, texts.held_out.inputs, texts.held_out_labels, settings)
        curves["score"].append(score)
        curves["loss"].append(loss)

    fit(
        tutor,
        batches,
        settings.epochs_or_default,
        schedule,
        every_step=True,
        after_epoch=evaluate_epoch,
    )
    fitted, _ = _evaluate(student, texts.train.inputs, texts.labels, settings)
    ends = {"score": curves["score"][-1], "loss": curves["loss"][-1]}
    return Outcome(ends | {"best": max(curves["score"]), "fitted": fitted}, curves)


def _lr_factor(step: int, steps: int, warm_up: int) -> float:
    warmed_up = min(1.0, (step + 1) / warm_up) if warm_up else 1.0
    return warmed_up * max(0.0, 1 - step / steps)


def _evaluate(
    student: nn.Module, inputs: Tensor, labels: Tensor, settings: Settings
) -> tuple[float, float]:
    texts, kind = material(settings.source), _task_kind(material(settings.source))
    device = next(student.parameters()).device
    batches = TextBatches(inputs, labels, torch.arange(len(labels)), 1, 0, device)
    outputs, targets = (x.cpu() for x in predictions(student, batches.whole(128)))
    default = accuracy if texts.classes > 1 else spearman
    score = SCORES.get(Path(settings.source.task).name, default)
    return score(kind.prediction(outputs), targets), float(
        kind.objective(outputs, targets).mean()
    )

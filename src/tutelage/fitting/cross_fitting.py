"""Cross-fitting for ``fit``: what to train on in place of the given labels."""

import copy
import math
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from tutelage.crossfit import FoldPredictions, FoldTraining, stratified_folds
from tutelage.crossfit.fold_settings import STRONGER, TRIED
from tutelage.crossfit.procedure import all_stages
from tutelage.crossfit.stages import DIVERGED, FoldStages
from tutelage.crossfit.transitions import ForwardCorrected, GoldLossCorrected, conditioned
from tutelage.data.order import BatchRequest, batch_count, in_order, shuffled
from tutelage.errors import UsageError, first_line
from tutelage.fitting.examples import Examples, JoinedExamples
from tutelage.fitting.fit_parts import REFUSED, FitParts
from tutelage.fitting.fit_state import Checkpoint
from tutelage.fitting.result import CrossFittedLabels
from tutelage.fitting.settings import FitSettings
from tutelage.functional.module_state import modes_kept
from tutelage.functional.portable_state import load_state, state_of
from tutelage.losses.objectives import Objective, cross_entropy, logits_of
from tutelage.precision import autocast_now, autocast_to
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import Plain
from tutelage.training.tutor import Tutor

EVAL_SIZE = 500
"""examples in a batch without gradients"""
_FOLD = 7
"""first part of the seeds of folds and their students"""
OTHERS = (
    "optimizer gives an optimiser of other parameters than those that it is called with, and "
    "cross-fitting trains copies of the student; allowed: a function of its argument, which "
    "lists the parameters as student.parameters() does, such as "
    'lambda p: torch.optim.SGD([{"params": p[:2], "lr": 0.01}, {"params": p[2:]}], 0.1).'
)
RESULT = "cross-fitted"
"""the file with the targets, in a run's folder"""
DECAY = "weight-decay"
"""the file with its chosen multiple, in a run's folder"""
FOLDS_FOLDER = "folds"
"""the folder of what is kept until then"""
WORSE = (
    "the checked examples show students of given labels to be better than what cross-fitting "
    "makes of these: the given labels are trained on as they are, beside the checked ones"
)


@dataclass(frozen=True)
class CrossFitting:
    """The students of folds: copies of the student, trained by ``tutelage.crossfit``."""

    student: nn.Module
    optimizer: Callable[[list[nn.Parameter]], Optimizer]
    teacher: nn.Module
    """of weights that are given, or none"""
    parts: FitParts
    settings: FitSettings
    checkpoint: Checkpoint
    workers: int
    progress: bool

    def labels(self) -> CrossFittedLabels:
        """The targets, from their file or made."""
        students = dict[str, dict[str, Any]]()

        def fit(training: FoldTraining) -> FoldPredictions:
            start = students[training.start] if training.start else None
            name = f"{FOLDS_FOLDER}/{training.name}"
            kept = self.checkpoint.cached(name, lambda: self._fitted(training, start))
            if training.is_start:
                students[training.name] = kept["student"]
            return FoldPredictions(kept["train"], kept["checked"])

        kept = self.checkpoint.cached(RESULT, lambda: self._made(fit)._asdict())
        self.checkpoint.remove(FOLDS_FOLDER)
        return CrossFittedLabels(**kept)

    def targets_and_objective(self, labels: CrossFittedLabels) -> tuple[Tensor, Objective]:
        """What the final student is trained on, of N training and H checked examples, and how.

        Under a corrected loss the targets are given labels [N], and [H] checked ones as
        ``GoldLossCorrected`` takes them.
        """
        if labels.transitions is None:
            return labels.targets, cross_entropy
        assert self.parts.checked_labels is not None
        given = _labels_of(self.parts.train, self.workers)
        checked = self.parts.checked_labels.long() + self.parts.classes
        loss = GoldLossCorrected(ForwardCorrected(labels.transitions))
        return torch.cat([given, checked]), loss

    def chosen_decay_factor(self) -> float:
        """The multiple of the weight decay by which given labels are predicted best.

        They are those of the first fold, predicted by students of the others, as for the
        control ``regularised`` of ``tutelage train``.
        """
        beside = self.parts.held_out or self.parts.validation or self.parts.train
        trials = replace(
            self, teacher=Plain(), parts=replace(self.parts, checked_examples=beside)
        )
        kept = self.checkpoint.cached(DECAY, lambda: {"factor": trials._best_decay_factor()})
        self.checkpoint.remove(FOLDS_FOLDER)
        return kept["factor"]

    def _best_decay_factor(self) -> float:
        given = _labels_of(self.parts.train, self.workers)
        seed = mixed_seed(_FOLD, self.settings.seed)
        folds = stratified_folds(given, self.settings.folds, seed=seed)
        stages = FoldStages(given, folds, given[:0])

        def likelihood(training: FoldTraining) -> float:
            name = f"{FOLDS_FOLDER}/{training.name}"
            found = self.checkpoint.cached(name, lambda: self._fitted(training, None))["train"]
            return stages.likelihood(found) if bool(found.isfinite().all()) else -math.inf

        tried = {decay: likelihood(stages.trial(decay)) for decay in (*TRIED, STRONGER)}
        if max(tried.values()) == -math.inf:
            raise UsageError(DIVERGED)
        return max(tried, key=tried.__getitem__).decay_factor

    @property
    def _checked(self) -> Examples:
        assert self.parts.checked_examples is not None
        return self.parts.checked_examples

    def _made(self, fit: Callable[[FoldTraining], FoldPredictions]) -> CrossFittedLabels:
        assert self.parts.checked_labels is not None
        given = _labels_of(self.parts.train, self.workers)
        checked = self.parts.checked_labels.long()
        seed = mixed_seed(_FOLD, self.settings.seed)
        folds = stratified_folds(given, self.settings.folds, seed=seed)
        found = all_stages(fit, given, folds, checked)
        targets = (
            F.one_hot(given, self.parts.classes)
            if found.train_on_given_labels
            else found.posterior
        )
        right = F.one_hot(checked, self.parts.classes)
        return CrossFittedLabels(
            torch.cat([targets.float(), right.float()]),
            found.posterior.gather(1, given[:, None])[:, 0],
            found.accuracy,
            found.decay_factor,
            WORSE if found.train_on_given_labels else "",
            conditioned(found.transitions) if found.correct_loss else None,
            found.note,
        )

    def _fitted(self, training: FoldTraining, start: dict[str, Any] | None) -> dict[str, Any]:
        """Train a copy of the student and predict."""
        student = self._train(training, start)
        count = len(self.parts.train)
        own = torch.ones(count, dtype=torch.bool)
        own[training.rows[training.rows < count]] = False
        found: dict[str, Any] = {
            "train": self._predicted(student, self.parts.train, own.nonzero()[:, 0]),
            "checked": self._predicted(
                student, self._checked, torch.arange(len(self._checked))
            ),
        }
        finite = all(bool(part.isfinite().all()) for part in found.values())
        if not finite and not training.is_trial:
            raise UsageError(
                f"The student of fold {training.fold + 1} diverged. Lower the learning rate by "
                "optimizer=, and scale inputs to about -1..1."
            )
        return found | ({"student": state_of(student)} if training.is_start else {})

    def _train(self, training: FoldTraining, start: dict[str, Any] | None) -> nn.Module:
        """Train a copy of the student for a share of the run's steps."""
        began, rows = time.monotonic(), training.rows
        student = copied(self.student)
        if start is not None:
            load_state(student, start, "student")
        student.train()
        moving = [p for p in student.parameters() if p.requires_grad]
        made = self.optimizer(moving)
        if not {p for group in made.param_groups for p in group["params"]} <= set(moving):
            raise UsageError(OTHERS)
        rates = [group["lr"] for group in made.param_groups]
        scale_weight_decay(made, training.settings.decay_factor)
        epoch = batch_count(len(rows), self.settings.batch_size)
        steps = training.settings.steps(self.settings.epochs * epoch)
        seed = mixed_seed(_FOLD, self.settings.seed, training.fold)
        tutor = Tutor(student, made, self.teacher, objective=training.objective, seed=seed)
        examples = JoinedExamples.join(self.parts.train, self._checked, training.targets)
        requests = _requests(rows, self.settings.batch_size, seed, steps)
        for batch in examples.batches(requests, self.parts.device, self.workers):
            factor = self.settings.lr_factor_after(tutor.steps / steps)
            for group, rate in zip(made.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            tutor.step(batch)
        if self.progress:
            sys.stderr.write(f"{training.name}: {time.monotonic() - began:.1f} s\n")
        return student

    @torch.no_grad()
    def _predicted(self, student: nn.Module, examples: Examples, rows: Tensor) -> Tensor:
        requests = [
            request._replace(rows=rows[request.rows])
            for request in in_order(len(rows), EVAL_SIZE, self.settings.seed)
        ]
        with evaluated(student, self.settings.seed, self.parts.device):
            found = [
                logits_of(student(batch.inputs)).float().softmax(1).cpu()
                for batch in examples.batches(requests, self.parts.device, self.workers)
            ]
        return torch.cat(found)


@contextmanager
def evaluated(student: nn.Module, seed: int, device: torch.device) -> Iterator[None]:
    """Evaluation mode inside, and own draws of a student that draws there.

    Autocast does not keep casts of weights, which would be used after these have moved on.
    """
    with modes_kept(student), seeded(seed, device), autocast_to(autocast_now(device), device):
        student.eval()
        yield


def scale_weight_decay(optimizer: Optimizer, factor: float) -> None:
    """Multiply the weight decay of every group that has one."""
    for group in optimizer.param_groups:
        if "weight_decay" in group:
            group["weight_decay"] *= factor


def copied(student: nn.Module) -> nn.Module:
    """A copy of a student, which is trained in its place."""
    try:
        return copy.deepcopy(student)
    except (*REFUSED, copy.Error, pickle.PickleError) as error:
        raise UsageError(
            f"Cross-fitting trains copies of the student, and {type(student).__name__} cannot "
            f"be copied: {first_line(error)}. Give a teacher, such as "
            'teacher="margin-loss", which needs no copies.'
        ) from error


def _labels_of(examples: Examples, workers: int) -> Tensor:
    """The given labels of all examples, which are read once for them."""
    if isinstance(examples.source, tuple):
        return examples.source[1].long().cpu()
    requests = list(in_order(len(examples), EVAL_SIZE, 0))
    batches = examples.batches(requests, torch.device("cpu"), workers)
    return torch.cat([batch.targets for batch in batches])


def _requests(rows: Tensor, size: int, seed: int, steps: int) -> list[BatchRequest]:
    def endless() -> Iterator[BatchRequest]:
        number = 0
        while True:
            yield from shuffled(rows, size, seed, number)
            number += 1

    return [request for request, _ in zip(endless(), range(steps), strict=False)]

"""Cross-fitting for ``fit``: what to train on in place of the given labels."""

import copy
import math
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from tutelage.crossfit import (
    ForwardCorrected,
    estimate_transitions,
    label_posterior,
    refined_transitions,
    stratified_folds,
)
from tutelage.crossfit.fold_settings import LONGEST_ROUND, SHRINKAGE, TRIED, FoldSettings
from tutelage.crossfit.likelihoods import calibrated, worse
from tutelage.crossfit.transitions import GoldLossCorrected
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
WORSE = (
    "the checked examples show the corrected students of folds to be worse than plain ones: "
    "the given labels are trained on as they are, beside the checked ones"
)


@dataclass(frozen=True)
class _Predictions:
    """Probabilities by students of folds."""

    train: Float[Tensor, "N C"]
    """for each training example, by the student that was not trained on it"""
    checked: Float[Tensor, "F H C"]
    """for the checked examples, by the students of all folds"""
    students: list[dict[str, Any]]
    """the states of those that are trained on"""


@dataclass(frozen=True)
class CrossFitting:
    """The students of folds: a copy of the student, trained on the other folds.

    They train as those of the command line do: for a length, and with a weight decay, that
    predict given labels of the first fold best, then on under the loss that is corrected by the
    class transitions that the checked examples show, with the checked examples of other folds.
    """

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
        kept = self.checkpoint.part(RESULT, lambda: self._made()._asdict())
        names = [f"{stage}-{k}" for stage in ("fold", "corrected") for k in range(self._folds)]
        self.checkpoint.remove("trials", *names)
        return CrossFittedLabels(**kept)

    @property
    def _folds(self) -> int:
        return self.settings.folds

    @property
    def _checked(self) -> Examples:
        assert self.parts.included is not None
        return self.parts.included

    def _made(self) -> CrossFittedLabels:
        given, checked = _labels_of(self.parts.train, self.workers), self._checked_labels()
        seed = self.settings.seed
        folds = stratified_folds(given, self._folds, seed=mixed_seed(_FOLD, seed))
        checked_folds = torch.zeros_like(checked)
        if len(checked) > 1:
            own_seed = mixed_seed(_FOLD, seed, self._folds)
            count = min(self._folds, len(checked))
            checked_folds = stratified_folds(checked, count, seed=own_seed)
        regime = self._chosen(folds, given)
        plain = self._stage("fold", folds, lambda k: self._plain(folds, k, regime))
        rough = estimate_transitions(plain.checked.mean(0), checked, shrinkage=SHRINKAGE)

        def corrected(fold: int) -> dict[str, Any]:
            start = plain.students[fold]
            return self._corrected(folds, checked_folds, fold, regime, rough, given, start)

        later = self._stage("corrected", folds, corrected)
        places = torch.arange(len(checked))
        own = [one.checked[checked_folds, places] for one in (plain, later)]
        likelihoods = [calibrated(one, checked) for one in own]
        fallback = worse(likelihoods[1], likelihoods[0])
        p = (plain if fallback else later).train
        posterior = label_posterior(p, refined_transitions(p, rough, given), given)
        as_given, right = (
            F.one_hot(labels, self.parts.classes).to(posterior) for labels in (given, checked)
        )
        return CrossFittedLabels(
            torch.cat([as_given if fallback else posterior, right]),
            posterior.gather(1, given[:, None])[:, 0],
            float((own[not fallback].argmax(1) == checked).double().mean()),
            WORSE if fallback else "",
        )

    def _checked_labels(self) -> Tensor:
        assert self.parts.checked is not None
        return self.parts.checked.long().cpu()

    def _chosen(self, folds: Tensor, given: Tensor) -> FoldSettings:
        """The settings whose student predicts given labels of the first fold best."""
        own_fold = (folds == 0).nonzero()[:, 0]

        def tried() -> dict[str, Any]:
            return {"likelihoods": [self._likelihood(folds, own_fold, given, t) for t in TRIED]}

        found = self.checkpoint.part("trials", tried)["likelihoods"]
        best = max(range(len(TRIED)), key=found.__getitem__)
        if found[best] == -math.inf:
            raise UsageError(
                "All students of the first fold diverged. Lower the learning rate by "
                "optimizer=, and scale inputs to about -1..1."
            )
        return TRIED[best]

    def _likelihood(
        self, folds: Tensor, own_fold: Tensor, given: Tensor, regime: FoldSettings
    ) -> float:
        rows = (folds != 0).nonzero()[:, 0]
        name = f"trial of {regime.share:.0%} of the steps, weight decay times {regime.decay:g}"
        student = self._train(self.parts.train, rows, 0, regime, name)
        p = self._predicted(student, self.parts.train, own_fold)
        return float(calibrated(p, given[own_fold]).mean()) if _finite(p) else -math.inf

    def _stage(
        self, stage: str, folds: Tensor, make: Callable[[int], dict[str, Any]]
    ) -> _Predictions:
        train = torch.empty(len(folds), self.parts.classes, dtype=torch.float32)
        found = list[dict[str, Any]]()
        for fold in range(self._folds):
            name = f"{stage}-{fold}"
            found.append(self.checkpoint.part(name, lambda fold=fold: make(fold)))
            train[folds == fold] = found[-1]["train"]
        checked = torch.stack([one["checked"] for one in found])
        return _Predictions(train, checked, [one.get("student", {}) for one in found])

    def _plain(self, folds: Tensor, fold: int, regime: FoldSettings) -> dict[str, Any]:
        rows = (folds != fold).nonzero()[:, 0]
        name = f"fold {fold + 1} of {self._folds}"
        student = self._train(self.parts.train, rows, fold, regime, name)
        return self._result(student, folds, fold) | {"student": state_of(student)}

    def _corrected(
        self,
        folds: Tensor,
        checked_folds: Tensor,
        fold: int,
        regime: FoldSettings,
        transitions: Tensor,
        given: Tensor,
        start: dict[str, Any],
    ) -> dict[str, Any]:
        classes = self.parts.classes
        rows = torch.cat([folds != fold, checked_folds != fold]).nonzero()[:, 0]
        targets = torch.cat([given, classes + self._checked_labels()])
        joined = JoinedExamples.join(self.parts.train, self._checked, targets)
        student = self._train(
            joined,
            rows,
            fold,
            regime._replace(share=min(LONGEST_ROUND, regime.share)),
            f"corrected fold {fold + 1} of {self._folds}",
            GoldLossCorrected(ForwardCorrected(transitions.to(self.parts.device))),
            start,
        )
        return self._result(student, folds, fold)

    def _result(self, student: nn.Module, folds: Tensor, fold: int) -> dict[str, Any]:
        train = self._predicted(student, self.parts.train, (folds == fold).nonzero()[:, 0])
        checked = self._predicted(student, self._checked, torch.arange(len(self._checked)))
        if not _finite(train) or not _finite(checked):
            raise UsageError(
                f"The student of fold {fold + 1} diverged. Lower the learning rate by "
                "optimizer=, and scale inputs to about -1..1."
            )
        return {"train": train, "checked": checked}

    def _train(
        self,
        examples: Examples,
        rows: Tensor,
        fold: int,
        regime: FoldSettings,
        name: str,
        objective: Objective = cross_entropy,
        start: dict[str, Any] | None = None,
    ) -> nn.Module:
        """Train a copy of the student on some examples, for a share of the run's steps."""
        began = time.monotonic()
        student = copied(self.student)
        if start is not None:
            load_state(student, start, "student")
        student.train()
        moving = [p for p in student.parameters() if p.requires_grad]
        made = self.optimizer(moving)
        if not {p for group in made.param_groups for p in group["params"]} <= set(moving):
            raise UsageError(OTHERS)
        rates = [group["lr"] for group in made.param_groups]
        for group in made.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] *= regime.decay
        steps = self.settings.epochs * batch_count(
            len(self.parts.train), self.settings.batch_size
        )
        steps = max(1, round(regime.share * steps))
        seed = mixed_seed(_FOLD, self.settings.seed, fold)
        tutor = Tutor(student, made, self.teacher, objective=objective, seed=seed)
        requests = _requests(rows, self.settings.batch_size, seed, steps)
        for batch in examples.batches(requests, self.parts.device, self.workers):
            factor = self.settings.decay_after(tutor.steps / steps)
            for group, rate in zip(made.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            tutor.step(batch)
        if self.progress:
            sys.stderr.write(f"{name}: {time.monotonic() - began:.1f} s\n")
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
    with (
        modes_kept(student),
        seeded(seed, device),
        autocast_to(autocast_now(device), device),
    ):
        student.eval()
        yield


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


def _finite(probabilities: Tensor) -> bool:
    return bool(probabilities.isfinite().all())

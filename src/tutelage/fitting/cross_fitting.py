"""Cross-fitting for ``fit``: what to train on in place of the given labels."""

import copy
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
from tutelage.crossfit.fold_settings import (
    SHRINKAGE,
    TRIED,
    FoldSettings,
    corrected_settings,
    distilled_settings,
)
from tutelage.crossfit.likelihoods import calibrated, last_not_worse
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
    "the checked examples show plain students of folds to be better than corrected ones: "
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
    Fresh ones are then trained on the posteriors of the right classes by those. Their accuracy
    on checked examples is not reported: the students of other folds, whose posteriors they are
    trained on, saw the checked examples of theirs.
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
        stages = ("fold", "corrected", "distilled")
        names = [f"{stage}-{k}" for stage in stages for k in range(self._folds)]
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
        trial = self.checkpoint.part("trials", lambda: self._best_trial(folds, given))
        regime = TRIED[trial["chosen"]]
        plain = self._stage(
            "fold", folds, lambda k: self._plain(folds, k, regime) if k else trial
        )
        rough = estimate_transitions(plain.checked.mean(0), checked, shrinkage=SHRINKAGE)
        as_given, right = (
            F.one_hot(labels, self.parts.classes).to(plain.train) for labels in (given, checked)
        )

        def posterior_of(stage: _Predictions) -> Tensor:
            refined = refined_transitions(stage.train, rough, given)
            return label_posterior(stage.train, refined, given)

        def joined(targets: Tensor) -> Examples:
            return JoinedExamples.join(self.parts.train, self._checked, targets)

        def others(fold: int) -> Tensor:
            return torch.cat([folds != fold, checked_folds != fold]).nonzero()[:, 0]

        with_given = joined(torch.cat([given, self.parts.classes + checked]))
        transitions = rough.to(self.parts.device)

        def correct(fold: int) -> dict[str, Any]:
            student = self._train(
                with_given,
                others(fold),
                fold,
                corrected_settings(regime),
                f"corrected fold {fold + 1} of {self._folds}",
                GoldLossCorrected(ForwardCorrected(transitions)),
                plain.students[fold],
            )
            return self._result(student, folds, fold)

        corrected = self._stage("corrected", folds, correct)
        by_posteriors = joined(torch.cat([posterior_of(corrected), right]))

        later = distilled_settings(regime)

        def distil(fold: int) -> dict[str, Any]:
            name = f"distilled fold {fold + 1} of {self._folds}"
            student = self._train(by_posteriors, others(fold), fold, later, name)
            return self._result(student, folds, fold)

        stages = plain, corrected, self._stage("distilled", folds, distil)
        places = torch.arange(len(checked))
        own = [stage.checked[checked_folds, places] for stage in stages]
        kept = last_not_worse([calibrated(one, checked) for one in own])
        posterior = posterior_of(stages[kept])
        return CrossFittedLabels(
            torch.cat([posterior if kept else as_given, right]),
            posterior.gather(1, given[:, None])[:, 0],
            float((own[min(kept, 1)].argmax(1) == checked).double().mean()),
            regime.decay,
            "" if kept else WORSE,
        )

    def _checked_labels(self) -> Tensor:
        assert self.parts.checked is not None
        return self.parts.checked.long().cpu()

    def _best_trial(self, folds: Tensor, given: Tensor) -> dict[str, Any]:
        """The student of the first fold that predicts its given labels best."""
        labels = given[folds == 0]
        likelihoods = dict[FoldSettings, float]()
        found = dict[FoldSettings, dict[str, Any]]()
        for regime in TRIED:
            share = f"{regime.share:.0%} of the steps"
            name = f"trial of {share}, weight decay times {regime.decay:g}"
            student = self._trained_plainly(folds, 0, regime, name)
            result = self._predictions(student, folds, 0)
            if _finite(result["train"]) and _finite(result["checked"]):
                likelihoods[regime] = float(calibrated(result["train"], labels).mean())
                found[regime] = result | {"student": state_of(student)}
        if not found:
            raise UsageError(
                "All students of the first fold diverged. Lower the learning rate by "
                "optimizer=, and scale inputs to about -1..1."
            )
        chosen = max(likelihoods, key=likelihoods.__getitem__)
        return found[chosen] | {"chosen": TRIED.index(chosen)}

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
        name = f"fold {fold + 1} of {self._folds}"
        student = self._trained_plainly(folds, fold, regime, name)
        return self._result(student, folds, fold) | {"student": state_of(student)}

    def _trained_plainly(
        self, folds: Tensor, fold: int, regime: FoldSettings, name: str
    ) -> nn.Module:
        rows = (folds != fold).nonzero()[:, 0]
        return self._train(self.parts.train, rows, fold, regime, name)

    def _result(self, student: nn.Module, folds: Tensor, fold: int) -> dict[str, Any]:
        found = self._predictions(student, folds, fold)
        if not all(map(_finite, found.values())):
            raise UsageError(
                f"The student of fold {fold + 1} diverged. Lower the learning rate by "
                "optimizer=, and scale inputs to about -1..1."
            )
        return found

    def _predictions(self, student: nn.Module, folds: Tensor, fold: int) -> dict[str, Tensor]:
        own = (folds == fold).nonzero()[:, 0]
        everyone = torch.arange(len(self._checked))
        return {
            "train": self._predicted(student, self.parts.train, own),
            "checked": self._predicted(student, self._checked, everyone),
        }

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
        scale_weight_decay(made, regime.decay)
        epoch = batch_count(len(rows), self.settings.batch_size)
        steps = regime.steps(self.settings.epochs * epoch)
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


def _finite(probabilities: Tensor) -> bool:
    return bool(probabilities.isfinite().all())

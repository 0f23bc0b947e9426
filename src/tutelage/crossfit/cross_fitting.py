"""Cross-fitting in rounds, by any training loop: plain, corrected and distilled students."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from tutelage.crossfit.checks import require_labels, require_probabilities
from tutelage.crossfit.fold_settings import (
    SHRINKAGE,
    TRIED,
    FoldSettings,
    corrected_settings,
    distilled_settings,
)
from tutelage.crossfit.folds import fold_count, stratified_folds
from tutelage.crossfit.likelihoods import calibrated, last_not_worse
from tutelage.crossfit.posterior import label_posterior, refined_transitions
from tutelage.crossfit.transitions import ForwardCorrected, estimate_transitions
from tutelage.errors import UsageError
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.validation.shapes import described, kind

ALLOWED = "FoldPredictions, probabilities of the fold's examples and of the checked ones"
DIVERGED = (
    "All students of the first fold diverged. Lower the learning rate, and scale inputs to "
    "about -1..1."
)


REPEATED = 3
"""times that a distilled student sees a checked example of another fold in an epoch"""


class FoldTraining(NamedTuple):
    """How one student of a fold is trained, of N training and H checked examples."""

    name: str
    """of its own in a run, fit for a file"""
    fold: int
    rows: Int64[Tensor, "M"]
    """the training examples of the other folds; of a distilled student also their checked ones,
    which follow from N on, each several times"""
    targets: Tensor
    """given labels [N] of the training examples; of a distilled student soft labels [N+H, C],
    those of checked examples last"""
    objective: Objective
    """from logits and targets to losses [B]; the student descends their mean"""
    settings: FoldSettings
    """for which share of the run's steps, and with how much weight decay"""
    start: str = ""
    """the name of the plain student from whose parameters it goes on; empty for a fresh one"""

    @property
    def is_trial(self) -> bool:
        """Whether it tries settings, and may diverge."""
        return self.name.startswith("trial")

    @property
    def is_plain(self) -> bool:
        """Whether others may go on from it."""
        return self.name.startswith(("trial", "plain"))


class FoldPredictions(NamedTuple):
    """Probabilities by the student of a fold, in evaluation mode."""

    train: Float[Tensor, "K C"]
    """of the training examples of its own fold, in their order"""
    checked: Float[Tensor, "H C"]


class OutOfFold(NamedTuple):
    """Probabilities by the students of all folds."""

    train: Float[Tensor, "N C"]
    """of each training example, by the student that was not trained on it"""
    checked: Float[Tensor, "H C"]
    """of each checked example, likewise"""
    mean: Float[Tensor, "H C"]
    """of each checked example, the mean over all students"""


class CrossFitted(NamedTuple):
    """The result of cross-fitting N examples with H checked ones beside them."""

    stages: tuple[OutOfFold, ...]
    """of the plain students, the corrected ones, and with two rounds the distilled ones"""
    kept: int
    """the last stage that is not shown to be worse than one before it; 0: the checked examples
    show plain students to be better, and the given labels are to be trained on"""
    settings: FoldSettings
    """of the plain students; their weight decay suits the final student, too"""
    transitions: Float[Tensor, "C C"]
    """refined by the kept stage: row right class, column given label"""
    posterior: Float[Tensor, "N C"]
    """over the right class of each training example, by the kept stage"""
    accuracy: float
    """of the kept stage on the checked examples, 0..1"""


@dataclass(frozen=True, eq=False)
class CrossFitting:
    """N training examples in folds with H checked examples, and what each stage trains on.

    The plain students train on given labels. The corrected ones go on from these under the
    loss that is corrected by the class transitions which the checked examples show. The
    distilled ones are fresh, and train on the posteriors by the corrected ones and on the
    checked examples of other folds. As no other student is trained on checked examples, not
    even their labels reach the students that predict them, but for what transitions carry.
    """

    given: Int64[Tensor, "N"]
    folds: Int64[Tensor, "N"]
    checked: Int64[Tensor, "H"]
    """right classes"""

    @cached_property
    def checked_folds(self) -> Int64[Tensor, "H"]:
        """The fold of each checked example; right classes are spread evenly."""
        count = min(int(self.folds.max()) + 1, len(self.checked))
        if count < 2:
            return torch.zeros_like(self.checked)
        return stratified_folds(self.checked, count, seed=0)

    def trial(self, settings: FoldSettings) -> FoldTraining:
        """A plain student of the first fold that tries settings."""
        return self.plain(0, settings)._replace(
            name=f"trial-{settings.share:.3g}-{settings.decay:g}"
        )

    def likelihood(self, predictions: Tensor) -> float | None:
        """Mean log p of the first fold's given labels [K, C], in nats; None: not finite."""
        if not bool(predictions.isfinite().all()):
            return None
        return float(calibrated(predictions, self.given[self.folds == 0]).mean())

    def plain(self, fold: int, settings: FoldSettings) -> FoldTraining:
        """The student of a fold that trains on given labels."""
        rows = (self.folds != fold).nonzero()[:, 0]
        name = f"plain-{fold}"
        return FoldTraining(name, fold, rows, self.given, cross_entropy, settings)

    def corrected(
        self, fold: int, settings: FoldSettings, transitions: Tensor, start: str = ""
    ) -> FoldTraining:
        """The student of a fold that goes on from the plain one under the corrected loss."""
        return self.plain(fold, corrected_settings(settings))._replace(
            name=f"corrected-{fold}", objective=ForwardCorrected(transitions), start=start
        )

    def distilled(self, fold: int, settings: FoldSettings, posterior: Tensor) -> FoldTraining:
        """The fresh student of a fold that trains on the posteriors by the corrected ones."""
        others = (self.checked_folds != fold).nonzero()[:, 0].repeat(REPEATED)
        right = F.one_hot(self.checked, posterior.shape[1]).to(posterior)
        training = self.plain(fold, distilled_settings(settings))
        return training._replace(
            name=f"distilled-{fold}",
            rows=torch.cat([training.rows, len(self.given) + others]),
            targets=torch.cat([posterior, right]),
        )

    def transitions(
        self, plain: OutOfFold, *, shrinkage: float = SHRINKAGE
    ) -> Float[Tensor, "C C"]:
        """Which label each class is given, as plain students and checked examples show."""
        return estimate_transitions(plain.mean, self.checked, shrinkage=shrinkage)

    def refined(self, stage: OutOfFold, plain: OutOfFold) -> Float[Tensor, "C C"]:
        """The transitions that all training examples refine."""
        return refined_transitions(stage.train, self.transitions(plain), self.given)

    def posterior(self, stage: OutOfFold, plain: OutOfFold) -> Float[Tensor, "N C"]:
        """The posterior over the right class of each training example."""
        return label_posterior(stage.train, self.refined(stage, plain), self.given)

    def joined(self, predictions: Sequence[FoldPredictions]) -> OutOfFold:
        """What the students of all folds predict, given in the order of the folds."""
        train = predictions[0].train.new_empty(len(self.given), predictions[0].train.shape[1])
        for fold, one in enumerate(predictions):
            train[self.folds == fold] = one.train
        by_fold = torch.stack([one.checked for one in predictions])
        own = by_fold[self.checked_folds, torch.arange(len(self.checked))]
        return OutOfFold(train, own, by_fold.mean(0))

    def select(self, stages: Sequence[OutOfFold]) -> tuple[int, list[float]]:
        """The last stage that is not shown to be worse than one before it, by log-likelihood.

        One is worse than another where the log-likelihood of the checked examples is lower by
        more than two standard errors of the paired differences. Probabilities are calibrated
        by a temperature first, so that what counts is which class is likelier, not how sure
        students are. A single checked example can decide nothing: the last stage is taken then.

        Returns:
            Its place, and the mean log-likelihood of each stage.
        """
        likelihoods = [calibrated(stage.checked, self.checked) for stage in stages]
        return last_not_worse(likelihoods), [float(each.mean()) for each in likelihoods]


def cross_fit(
    fit: Callable[[FoldTraining], FoldPredictions],
    given: Tensor,
    folds: Int64[Tensor, "N"],
    checked: Tensor,
    *,
    rounds: int = 2,
) -> CrossFitted:
    """Estimate the right class of every training example, with the help of checked ones.

    Four plain students of the first fold try lengths and weight decays (``TRIED``); those that
    predict its given labels best are taken for all plain students. The mean of their
    predictions of the checked examples estimates the class transitions. Each plain student
    goes on under the loss corrected by them; with two rounds, fresh students train on the
    posteriors by these and on the checked examples of other folds. Nothing but the C x C
    transitions carries a checked label to a student that predicts this example. A final
    student is then trained on ``posterior`` and the checked examples, or on the given labels
    and the checked examples where ``kept`` is 0. ``tutelage.fit`` does all of this.

    Source: correction is the gold loss correction of Hendrycks et al. 2018 within folds;
    the refinement of transitions follows Dawid and Skene 1979; the rest is ours.

    Args:
        fit: Trains the student of a ``FoldTraining`` and predicts. It is to seed itself by the
            fold, and to keep the plain students, from which others go on by their name.
        given: The given labels [N] of the training examples.
        folds: The fold of each, as ``stratified_folds`` gives them.
        checked: The right classes [H] of the checked examples, which are none of the N.
        rounds: 1, or 2 with distilled students.

    Returns:
        What each stage predicts, the kept stage, and the posteriors to train on.

    Raises:
        UsageError: If arguments do not fit, a student's predictions are no distributions of
            its examples, or all trials are not finite.
    """
    count = fold_count(folds)
    if folds.shape != given.shape:
        raise UsageError(
            f"folds have shape {tuple(folds.shape)} for labels of shape {tuple(given.shape)}; "
            "allowed: one fold for each example."
        )
    if rounds not in (1, 2):
        raise UsageError(f"rounds is {rounds}; allowed: 1 or 2.")
    if not len(checked):
        raise UsageError("there is no checked example; allowed: one and more.")
    data = CrossFitting(given.cpu().long(), folds.cpu().long(), checked.cpu().long())

    def fitted(training: FoldTraining) -> FoldPredictions:
        own = int((data.folds == training.fold).sum())
        return _predictions(fit(training), training.name, own, len(checked))

    def stage(trainings: Iterable[FoldTraining]) -> OutOfFold:
        return data.joined([_finite(fitted(one), one.name) for one in trainings])

    trials = {settings: fitted(data.trial(settings)) for settings in TRIED}
    classes = trials[TRIED[0]].train.shape[1]
    require_labels("given", data.given, len(given), classes)
    require_labels("checked", data.checked, len(checked), classes)
    likelihoods = {settings: data.likelihood(one.train) for settings, one in trials.items()}
    known = {settings: value for settings, value in likelihoods.items() if value is not None}
    if not known:
        raise UsageError(DIVERGED)
    settings = max(known, key=known.__getitem__)
    first = data.trial(settings).name
    later = [data.plain(fold, settings) for fold in range(1, count)]
    plain = data.joined([trials[settings], *(_finite(fitted(one), one.name) for one in later)])
    transitions, starts = data.transitions(plain), [first, *(one.name for one in later)]
    stages = [
        plain,
        stage(
            data.corrected(fold, settings, transitions, start)
            for fold, start in enumerate(starts)
        ),
    ]
    if rounds > 1:
        posterior = data.posterior(stages[1], plain)
        stages.append(stage(data.distilled(fold, settings, posterior) for fold in range(count)))
    kept, _ = data.select(stages)
    right = stages[kept].checked.argmax(1) == data.checked
    return CrossFitted(
        tuple(stages),
        kept,
        settings,
        data.refined(stages[kept], plain),
        data.posterior(stages[kept], plain),
        float(right.double().mean()),
    )


def _predictions(found: object, name: str, own: int, checked: int) -> FoldPredictions:
    """What ``fit`` gives, on the CPU."""
    if not isinstance(found, tuple) or not all(isinstance(part, Tensor) for part in found):
        raise UsageError(f"fit gives {kind(found)} for {name}; allowed: {ALLOWED}.")
    parts = [part.detach().cpu() for part in found]
    lengths = [len(part) if part.ndim == 2 else -1 for part in parts]
    if lengths != [own, checked]:
        shapes = " and ".join(described(part) for part in parts)
        raise UsageError(
            f"fit gives {shapes} for {name}; allowed: {ALLOWED}, here of {own} and {checked} "
            "rows."
        )
    return FoldPredictions(*parts)


def _finite(found: FoldPredictions, name: str) -> FoldPredictions:
    for part in found:
        require_probabilities(f"the predictions of {name}", part)
    return found

"""Cross-fitting in rounds, by any training loop: plain, corrected and distilled students.

``FoldStages`` defines the three.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from tutelage.crossfit.chance import Predicted, folds_note
from tutelage.crossfit.checks import require_labels, require_probabilities
from tutelage.crossfit.fold_settings import (
    FULL_RUN,
    SHRINKAGE,
    TRIED,
    FoldSettings,
    compares_full_run,
    corrected_settings,
    distilled_settings,
    distilled_tried,
    times_seen,
)
from tutelage.crossfit.folds import fold_count, stratified_folds
from tutelage.crossfit.likelihoods import (
    calibrated_log_likelihood,
    select_stage,
    significantly_worse,
)
from tutelage.crossfit.posterior import label_posterior, refined_transitions
from tutelage.crossfit.transitions import ForwardCorrected, estimate_transitions
from tutelage.errors import UsageError
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.validation.shapes import described, kind

ALLOWED = "FoldPredictions, probabilities of the fold's examples and of the checked ones"
DIVERGED = (
    "All students of the first fold that try settings diverged. Lower the learning rate, and "
    "scale inputs to about -1..1."
)


class FoldTraining(NamedTuple):
    """How one student of a fold is trained, of N training and H checked examples.

    It trains on ``targets[rows]``: rows are indices of the training examples, which the checked
    ones follow from N on. Its steps are ``settings.steps(those of a whole run)``, its weight
    decay is that of the run times ``settings.decay_factor``.
    """

    name: str
    """of its own in a run, fit for a file"""
    fold: int
    rows: Int64[Tensor, "M"]
    """the training examples of the other folds; of a distilled student also their checked ones,
    which follow from N on, each several times"""
    targets: Tensor
    """of all examples, by row: given labels [N]; of a distilled student soft labels [N+H, C]"""
    objective: Objective
    """from logits and targets to losses [B]; the student descends their mean"""
    settings: FoldSettings
    """for which share of the run's steps, and with how much weight decay"""
    start: str = ""
    """the name of the plain student from whose parameters it goes on; empty for a fresh one"""

    @property
    def is_trial(self) -> bool:
        """Whether it tries settings, and may diverge."""
        return self.name.startswith(("trial", "distilled-trial"))

    @property
    def is_start(self) -> bool:
        """Whether others may go on from it."""
        return self.name.startswith(("trial", "plain"))


class FoldPredictions(NamedTuple):
    """Probabilities by the student of a fold, in evaluation mode."""

    train: Float[Tensor, "K C"]
    """of the training examples of its own fold, in their order"""
    checked: Float[Tensor, "H C"]


class StagePredictions(NamedTuple):
    """Probabilities by the students of all folds."""

    train: Float[Tensor, "N C"]
    """of each training example, by the student that was not trained on it. Its given label
    affects a distilled student all the same, by posteriors of other corrected students"""
    checked: Float[Tensor, "H C"]
    """of each checked example, by the student that was not trained on it"""
    checked_mean: Float[Tensor, "H C"]
    """of each checked example, the mean over all students"""


class CrossFitted(NamedTuple):
    """The result of cross-fitting N examples with H checked ones beside them."""

    stages: tuple[StagePredictions, ...]
    """of the plain students, the corrected ones, and with two rounds the distilled ones"""
    selected: int
    """index in ``stages`` of the last stage whose log-likelihood of the checked labels is not
    significantly below that of the stage selected before it"""
    train_on_given_labels: bool
    """whether to train on the given labels: plain students are selected, or a student of given
    labels that trained for a whole run is significantly better than the selected ones"""
    settings: FoldSettings
    """of the plain students"""
    decay_factor: float
    """of the final student: that of the distilled ones, with one round of the plain ones"""
    transitions: Float[Tensor, "C C"]
    """refined by the selected stage: row right class, column given label"""
    posterior: Float[Tensor, "N C"]
    """over the right class of each training example, by the selected stage"""
    accuracy: float
    """on the checked examples, 0..1: of the selected stage, or of the student that trained for
    a whole run where that is better"""
    note: str
    """a caution that plain students are hardly better than chance; empty if they are better"""


@dataclass(frozen=True, eq=False)
class FoldStages:
    """N training examples in folds with H checked examples, and what each stage trains on.

    The plain students train on given labels. The corrected ones go on from these under the
    loss that is corrected by the class transitions which the checked examples show. The
    distilled ones are fresh, and train on the posteriors by the corrected ones and on the
    checked examples of other folds. No other student is trained on checked examples, so that a
    checked label affects the students that predict it by the C x C transitions alone.
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
            name=f"trial-{settings.share:.3g}-{settings.decay_factor:g}"
        )

    def likelihood(self, predictions: Float[Tensor, "K C"]) -> float:
        """Mean log p of the first fold's given labels, in nats."""
        return float(calibrated_log_likelihood(predictions, self.given[self.folds == 0]).mean())

    def plain(self, fold: int, settings: FoldSettings) -> FoldTraining:
        """The student of a fold that trains on given labels."""
        rows = (self.folds != fold).nonzero()[:, 0]
        name = f"plain-{fold}"
        return FoldTraining(name, fold, rows, self.given, cross_entropy, settings)

    def trainings(
        self, settings: FoldSettings, before: Sequence[StagePredictions]
    ) -> list[FoldTraining]:
        """The students of the stage that follows others, by fold; they may train in parallel.

        The plain student of the first fold is the trial of the chosen settings. The settings of
        distilled students are those of ``distilled_choice``.
        """
        others = range(1, int(self.folds.max()) + 1)
        plain = [self.trial(settings), *(self.plain(fold, settings) for fold in others)]
        if not before:
            return plain
        if len(before) == 1:
            corrected = ForwardCorrected(self.transitions(before[0]))
            return [
                one._replace(
                    name=f"corrected-{one.fold}",
                    objective=corrected,
                    settings=corrected_settings(settings),
                    start=one.name,
                )
                for one in plain
            ]
        targets = self._soft_labels(before)
        return [self._distilled(one, targets) for one in plain]

    def distilled_trials(
        self, settings: FoldSettings, before: Sequence[StagePredictions]
    ) -> list[FoldTraining]:
        """Students that try weight decays on the first fold's posteriors alone.

        They are not trained on checked examples, so that all of these evaluate them.
        """
        plain, targets = self.plain(0, settings), self._soft_labels(before)
        return [
            plain._replace(
                name=f"distilled-trial-{one.decay_factor:g}", targets=targets, settings=one
            )
            for one in distilled_tried(settings)
        ]

    def distilled_choice(
        self, tried: Mapping[FoldSettings, Float[Tensor, "H C"]]
    ) -> FoldSettings:
        """The settings of distilled students, by predictions of the checked examples.

        They are the first of those tried that did not diverge, unless others predict better by
        more than two standard errors of the paired differences.
        """
        finite = {of: p for of, p in tried.items() if bool(p.isfinite().all())}
        if not finite:
            raise UsageError(DIVERGED)
        (chosen, first), *others = [
            (of, calibrated_log_likelihood(p, self.checked)) for of, p in finite.items()
        ]
        return next(
            (settings for settings, each in others if significantly_worse(first, each)), chosen
        )

    def _soft_labels(self, before: Sequence[StagePredictions]) -> Float[Tensor, "M C"]:
        posterior = self.posterior(before[1], self.refined(before[1], before[0]))
        right = F.one_hot(self.checked, posterior.shape[1]).to(posterior)
        return torch.cat([posterior, right])

    def _distilled(self, plain: FoldTraining, targets: Tensor) -> FoldTraining:
        others = (self.checked_folds != plain.fold).nonzero()[:, 0]
        others = others.repeat(times_seen(len(others), len(plain.rows)))
        return plain._replace(
            name=f"distilled-{plain.fold}",
            rows=torch.cat([plain.rows, len(self.given) + others]),
            targets=targets,
            settings=distilled_settings(plain.settings),
        )

    def transitions(
        self, plain: StagePredictions, *, shrinkage: float = SHRINKAGE
    ) -> Float[Tensor, "C C"]:
        """Which label each class is given, as plain students and checked examples show."""
        return estimate_transitions(plain.checked_mean, self.checked, shrinkage=shrinkage)

    def refined(self, stage: StagePredictions, plain: StagePredictions) -> Float[Tensor, "C C"]:
        """The transitions that all training examples refine."""
        return refined_transitions(stage.train, self.transitions(plain), self.given)

    def posterior(
        self, stage: StagePredictions, refined: Float[Tensor, "C C"]
    ) -> Float[Tensor, "N C"]:
        """The posterior over the right class of each training example."""
        return label_posterior(stage.train, refined, self.given)

    def joined(self, predictions: Sequence[FoldPredictions]) -> StagePredictions:
        """What the students of all folds predict, given in the order of the folds."""
        train = predictions[0].train.new_empty(len(self.given), predictions[0].train.shape[1])
        for fold, one in enumerate(predictions):
            train[self.folds == fold] = one.train
        by_fold = torch.stack([one.checked for one in predictions])
        own = by_fold[self.checked_folds, torch.arange(len(self.checked))]
        return StagePredictions(train, own, by_fold.mean(0))

    def select(self, stages: Sequence[StagePredictions]) -> tuple[int, list[float]]:
        """The last stage that is not shown to be worse than the one selected before it.

        One is worse than another where the log-likelihood of the checked examples is lower by
        more than two standard errors of the paired differences. Probabilities are calibrated
        by a temperature first, so that what counts is which class is likelier, not how sure
        students are. A single checked example can decide nothing: the last stage is taken then.

        Returns:
            Its place, and the mean log-likelihood of each stage.
        """
        likelihoods = [
            calibrated_log_likelihood(stage.checked, self.checked) for stage in stages
        ]
        return select_stage(likelihoods), [float(each.mean()) for each in likelihoods]

    def full_run_is_better(
        self, stage: StagePredictions, full_run: Float[Tensor, "H C"] | None
    ) -> bool:
        """Whether a student of given labels predicts better after a whole run than a stage.

        That is a difference of more than two standard errors, as in ``select``.

        Args:
            stage: The selected one.
            full_run: Probabilities of the checked examples by that student; None unless
                ``compares_full_run``. One that diverged is not better.
        """
        if full_run is None or not bool(full_run.isfinite().all()):
            return False
        return significantly_worse(
            calibrated_log_likelihood(stage.checked, self.checked),
            calibrated_log_likelihood(full_run, self.checked),
        )

    def result(
        self,
        settings: FoldSettings,
        decay_factor: float,
        stages: Sequence[StagePredictions],
        full_run: Float[Tensor, "H C"] | None = None,
    ) -> CrossFitted:
        """What the selected stage makes of the labels."""
        selected, _ = self.select(stages)
        stage = stages[selected]
        refined, checked = self.refined(stage, stages[0]), stage.checked
        if longer := self.full_run_is_better(stage, full_run):
            assert full_run is not None
            checked = full_run
        train_on_given_labels = longer or not selected
        right = checked.argmax(1) == self.checked
        return CrossFitted(
            tuple(stages),
            selected,
            train_on_given_labels,
            settings,
            settings.decay_factor if train_on_given_labels else decay_factor,
            refined,
            self.posterior(stage, refined),
            float(right.double().mean()),
            folds_note(Predicted.of(stages[0].train.argmax(1), self.given)),
        )


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
    goes on as a corrected one, under the loss corrected by them; with two rounds, fresh
    distilled students train on the posteriors by these and on the checked examples of other
    folds, with a quarter of the weight decay where the checked examples show that to be better.
    A checked label affects a student that predicts its example by the C x C transitions alone.
    Where the longest trial with the run's own weight decay was the best, a student of the first
    fold trains on given labels for a whole run and is compared with the selected ones. A final
    student is then trained on ``posterior`` and the checked examples, or on the given labels
    and the checked examples where ``train_on_given_labels``. ``tutelage.fit`` does all of this.

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
        What each stage predicts, the selected one, and the posteriors to train on, in single
        precision.

    Note: raises ``UsageError`` if arguments do not fit, a student's predictions are no
    distributions of its examples, or all trials are not finite. Warns where the accuracy of
    plain students on given labels that they were not trained on is not above the share of the
    most frequent label by two standard errors: they were then trained for too short, or with a
    learning rate that does not suit them.
    """
    found = all_stages(fit, given, folds, checked, rounds=rounds)
    if found.note:
        remedy = "Train for more steps, or with another learning rate."
        warnings.warn(f"cross_fit: {found.note}. {remedy}", stacklevel=2)
    return found


def all_stages(
    fit: Callable[[FoldTraining], FoldPredictions],
    given: Tensor,
    folds: Int64[Tensor, "N"],
    checked: Tensor,
    *,
    rounds: int = 2,
) -> CrossFitted:
    """What ``cross_fit`` returns, without a warning."""
    data = _checked_data(given, folds, checked)
    if rounds not in (1, 2):
        raise UsageError(f"rounds is {rounds!r}; allowed: 1 or 2.")
    classes = list[int]()

    def fitted(training: FoldTraining) -> FoldPredictions:
        own = int((data.folds == training.fold).sum())
        found = _predictions(fit(training), training.name, own, len(data.checked))
        classes.extend(part.shape[1] for part in found)
        if len(set(classes)) > 1:
            raise UsageError(
                f"fit gives {sorted(set(classes))} classes, the last for {training.name}; "
                "allowed: one number for all students and examples."
            )
        return found

    def predicted(training: FoldTraining) -> FoldPredictions:
        return _distributions(fitted(training), training.name)

    tried = {one.name: (one, fitted(one)) for one in map(data.trial, TRIED)}
    require_labels("given", data.given, len(data.given), classes[0])
    require_labels("checked", data.checked, len(data.checked), classes[0])
    likelihoods = {
        one.settings: data.likelihood(_distributions(found, one.name).train)
        for one, found in tried.values()
        if _is_finite(found)
    }
    if not likelihoods:
        raise UsageError(DIVERGED)
    settings = max(likelihoods, key=likelihoods.__getitem__)
    first, *others = data.trainings(settings, ())
    plain = data.joined([tried[first.name][1], *map(predicted, others)])
    stages = [plain, data.joined([*map(predicted, data.trainings(settings, [plain]))])]
    decay_factor = settings.decay_factor
    if rounds > 1:
        trials, last = data.distilled_trials(settings, stages), settings
        if len(trials) > 1:
            last = data.distilled_choice({one.settings: fitted(one).checked for one in trials})
        decay_factor = last.decay_factor
        stages.append(data.joined([*map(predicted, data.trainings(last, stages))]))
    longer = data.trial(FULL_RUN)
    full_run = _of_full_run(fitted(longer), longer) if compares_full_run(settings) else None
    return data.result(settings, decay_factor, stages, full_run)


def _checked_data(given: Tensor, folds: Tensor, checked: Tensor) -> FoldStages:
    """Refuse what are no labels or folds."""
    given = require_labels("given", given, len(given)).cpu().clone()
    checked = require_labels("checked", checked, len(checked)).cpu()
    if folds.shape != given.shape:
        raise UsageError(
            f"folds have shape {tuple(folds.shape)} for labels of shape {tuple(given.shape)}; "
            "allowed: one fold for each example."
        )
    if not len(checked):
        raise UsageError("there is no checked example; allowed: one and more.")
    fold_count(folds)  # raises
    return FoldStages(given, folds.cpu().long(), checked)


def _predictions(found: object, name: str, own: int, checked: int) -> FoldPredictions:
    """What ``fit`` gives, on the CPU."""
    if not isinstance(found, tuple) or not all(isinstance(part, Tensor) for part in found):
        raise UsageError(f"fit gives {kind(found)} for {name}; allowed: {ALLOWED}.")
    parts = [part.detach().cpu().float().clone() for part in found]
    lengths = [len(part) if part.ndim == 2 else -1 for part in parts]
    if lengths != [own, checked]:
        shapes = " and ".join(described(part) for part in parts)
        raise UsageError(
            f"fit gives {shapes} for {name}; allowed: {ALLOWED}, here of {own} and {checked} "
            "rows."
        )
    return FoldPredictions(*parts)


def _of_full_run(found: FoldPredictions, training: FoldTraining) -> Tensor | None:
    """Predictions of the checked examples; None if the student diverged."""
    return _distributions(found, training.name).checked if _is_finite(found) else None


def _is_finite(found: FoldPredictions) -> bool:
    return all(bool(part.isfinite().all()) for part in found)


def _distributions(found: FoldPredictions, name: str) -> FoldPredictions:
    """Refuse predictions that are no probability distributions."""
    for part in found:
        require_probabilities(f"the predictions of {name}", part)
    return found

"""The stages of cross-fitting: plain, corrected and distilled students of folds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from tutelage.crossfit.chance import Predicted, folds_note
from tutelage.crossfit.fold_settings import (
    SHRINKAGE,
    FoldSettings,
    corrected_settings,
    distilled_settings,
    distilled_tried,
    times_seen,
)
from tutelage.crossfit.folds import stratified_folds
from tutelage.crossfit.likelihoods import (
    calibrated_log_likelihood,
    given_log_likelihood,
    select_stage,
    significantly_worse,
)
from tutelage.crossfit.posterior import label_posterior, refined_transitions
from tutelage.crossfit.transitions import ForwardCorrected, estimate_transitions
from tutelage.errors import UsageError
from tutelage.losses.objectives import Objective, cross_entropy

DIVERGED = (
    "All students of the first fold that try settings diverged. Lower the learning rate, and "
    "scale inputs to about -1..1."
)


FoldStage = Literal["trial", "plain", "corrected", "distilled-trial", "distilled"]


class FoldTraining(NamedTuple):
    """How one student of a fold is trained, of N training and H checked examples.

    It trains on ``targets[rows]``: rows are indices of the training examples, which the checked
    ones follow from N on. Its steps are ``settings.steps(those of a whole run)``, its weight
    decay is that of the run times ``settings.decay_factor``.
    """

    stage: FoldStage
    name: str
    """unique in a run, and fit for the name of a file"""
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
        return self.stage in ("trial", "distilled-trial")

    @property
    def is_start(self) -> bool:
        """Whether others may go on from it."""
        return self.stage in ("trial", "plain")


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
    correct_loss: bool
    """whether to train on the given labels under the loss that is corrected by the transitions
    in place of the posteriors: students of folds gained more by correction than by distillation
    (``FoldStages.gains_by_correction``)"""
    settings: FoldSettings
    """of the plain students"""
    decay_factor: float
    """of the final student, times the run's weight decay: that of the distilled ones; of the
    plain ones with one round and where given labels are trained on as they are"""
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
        name = f"trial-{settings.share:.3g}-{settings.decay_factor:g}"
        return self.plain(0, settings)._replace(stage="trial", name=name)

    def likelihood(self, predictions: Float[Tensor, "K C"]) -> float:
        """Mean log p of the first fold's given labels, in nats."""
        return float(calibrated_log_likelihood(predictions, self.given[self.folds == 0]).mean())

    def plain(self, fold: int, settings: FoldSettings) -> FoldTraining:
        """The student of a fold that trains on given labels."""
        rows = (self.folds != fold).nonzero()[:, 0]
        name = f"plain-{fold}"
        return FoldTraining("plain", name, fold, rows, self.given, cross_entropy, settings)

    def trainings(
        self, settings: FoldSettings, before: Sequence[StagePredictions]
    ) -> list[FoldTraining]:
        """The students of the next stage, one for each fold; they may train in parallel.

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
                    stage="corrected",
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
                stage="distilled-trial",
                name=f"distilled-trial-{one.decay_factor:g}",
                targets=targets,
                settings=one,
            )
            for one in distilled_tried(settings)
        ]

    def distilled_choice(
        self, tried: Mapping[FoldSettings, Float[Tensor, "H C"]]
    ) -> FoldSettings:
        """The settings of distilled students, by predictions of the checked examples.

        They are the first of those tried that did not diverge, unless others predict better by
        more than one standard error of the paired differences: few checked examples of many
        classes show no more where the difference is large.
        """
        finite = {of: p for of, p in tried.items() if bool(p.isfinite().all())}
        if not finite:
            raise UsageError(DIVERGED)
        (chosen, first), *others = [
            (of, calibrated_log_likelihood(p, self.checked)) for of, p in finite.items()
        ]
        return next(
            (
                settings
                for settings, each in others
                if significantly_worse(first, each, standard_errors=1.0)
            ),
            chosen,
        )

    def _soft_labels(self, before: Sequence[StagePredictions]) -> Float[Tensor, "M C"]:
        posterior = self.posterior(before[1], self.refined_transitions(before[1], before[0]))
        right = F.one_hot(self.checked, posterior.shape[1]).to(posterior)
        return torch.cat([posterior, right])

    def _distilled(self, plain: FoldTraining, targets: Tensor) -> FoldTraining:
        others = (self.checked_folds != plain.fold).nonzero()[:, 0]
        others = others.repeat(times_seen(len(others), len(plain.rows)))
        return plain._replace(
            stage="distilled",
            name=f"distilled-{plain.fold}",
            rows=torch.cat([plain.rows, len(self.given) + others]),
            targets=targets,
            settings=distilled_settings(plain.settings),
        )

    def transitions(
        self, plain: StagePredictions, *, shrinkage: float = SHRINKAGE
    ) -> Float[Tensor, "C C"]:
        """The class transitions, by plain students' predictions of the checked examples."""
        return estimate_transitions(plain.checked_mean, self.checked, shrinkage=shrinkage)

    def refined_transitions(
        self, stage: StagePredictions, plain: StagePredictions
    ) -> Float[Tensor, "C C"]:
        """The class transitions, refined by all training examples."""
        return refined_transitions(stage.train, self.transitions(plain), self.given)

    def posterior(
        self, stage: StagePredictions, refined: Float[Tensor, "C C"]
    ) -> Float[Tensor, "N C"]:
        """The posterior over the right class of each training example."""
        return label_posterior(stage.train, refined, self.given)

    def combine_folds(self, predictions: Sequence[FoldPredictions]) -> StagePredictions:
        """The predictions of a stage, from those of its students in the order of the folds."""
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
            Its index, and the mean log-likelihood of each stage.
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

    def gains_by_correction(self, stages: Sequence[StagePredictions]) -> bool:
        """Whether students of folds gained more by correction than by distillation.

        What gains is the mean log-likelihood of given labels that a student was not trained on,
        where it predicts the right classes and the transitions the labels: from the plain to
        the corrected students, and from these to the distilled ones. It is False with one round
        and where no stage gains.
        """
        if len(stages) < 3:
            return False
        transitions = self.refined_transitions(stages[1], stages[0])
        plain, corrected, distilled = (
            float(given_log_likelihood(stage.train, self.given, transitions).mean())
            for stage in stages
        )
        return corrected - plain > max(0.0, distilled - corrected)

    def result(
        self,
        settings: FoldSettings,
        decay_factor: float,
        stages: Sequence[StagePredictions],
        full_run: Float[Tensor, "H C"] | None = None,
    ) -> CrossFitted:
        """The result of cross-fitting by the selected stage."""
        selected, _ = self.select(stages)
        stage = stages[selected]
        refined, checked = self.refined_transitions(stage, stages[0]), stage.checked
        if longer := self.full_run_is_better(stage, full_run):
            assert full_run is not None
            checked = full_run
        train_on_given_labels = longer or not selected
        right = checked.argmax(1) == self.checked
        return CrossFitted(
            tuple(stages),
            selected,
            train_on_given_labels,
            not train_on_given_labels and self.gains_by_correction(stages),
            settings,
            settings.decay_factor if train_on_given_labels else decay_factor,
            refined,
            self.posterior(stage, refined),
            float(right.double().mean()),
            folds_note(Predicted.of(stages[0].train.argmax(1), self.given)),
        )

"""Cross-fitting by any training loop: the order of its stages, and what they choose."""

import warnings
from collections.abc import Callable

from jaxtyping import Int64
from torch import Tensor

from tutelage.crossfit.checks import require_labels, require_probabilities
from tutelage.crossfit.fold_settings import FULL_RUN, TRIED, compares_full_run
from tutelage.crossfit.folds import fold_count
from tutelage.crossfit.stages import (
    DIVERGED,
    CrossFitted,
    FoldPredictions,
    FoldStages,
    FoldTraining,
)
from tutelage.errors import UsageError
from tutelage.validation.shapes import described, kind

ALLOWED = "FoldPredictions, probabilities of the fold's examples and of the checked ones"


def cross_fit(
    fit: Callable[[FoldTraining], FoldPredictions],
    given: Tensor,
    folds: Int64[Tensor, "N"],
    checked: Tensor,
    *,
    rounds: int = 2,
) -> CrossFitted:
    """Estimate the right class of every training example, with the help of checked ones.

    Four plain students of the first fold try lengths and weight decays (``TRIED``); the setting
    whose student predicts its given labels best is that of all plain students. The mean of
    their predictions of the checked examples estimates the class transitions. Each plain
    student goes on as a corrected one, under the loss corrected by these; with two rounds,
    fresh distilled students train on the posteriors by these and on the checked examples of
    other folds, with a quarter of the weight decay where the checked examples show that to be
    better. A checked label affects a student that predicts its example by the C x C transitions
    alone. Where the longest trial with the run's own weight decay was the best, a student of
    the first fold trains on given labels for a whole run and is compared with the selected
    ones. A final student is then trained on the checked examples and on ``posterior``; where
    ``correct_loss``, on given labels under the loss corrected by ``transitions``; where
    ``train_on_given_labels``, on these as they are. ``tutelage.fit`` does all of this.

    Source: correction is the gold loss correction of Hendrycks et al. 2018 within folds;
    the refinement of transitions follows Dawid and Skene 1979; the rest is ours.

    Args:
        fit: Trains the student of a ``FoldTraining`` and predicts. It has to seed itself by the
            fold, and to keep plain students by name, as others go on from them.
        given: The given labels [N] of the training examples.
        folds: The fold of each, as ``stratified_folds`` gives them.
        checked: The right classes [H] of the checked examples, which are none of the N.
        rounds: 1, or 2 with distilled students.

    Returns:
        What each stage predicts, the selected one, and the posteriors to train on, in single
        precision.

    Note: raises ``UsageError`` if arguments do not fit, a student's predictions are no
    distributions of its examples, or no trial is finite. Warns where the accuracy of plain
    students on given labels that they were not trained on is not above the share of the most
    frequent label by two standard errors: they were then trained for too few steps, or with an
    unsuitable learning rate.
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
    plain = data.combine_folds([tried[first.name][1], *map(predicted, others)])
    stages = [plain, data.combine_folds([*map(predicted, data.trainings(settings, [plain]))])]
    decay_factor = settings.decay_factor
    if rounds > 1:
        trials, last = data.distilled_trials(settings, stages), settings
        if len(trials) > 1:
            last = data.distilled_choice({one.settings: fitted(one).checked for one in trials})
        decay_factor = last.decay_factor
        stages.append(data.combine_folds([*map(predicted, data.trainings(last, stages))]))
    longer = data.trial(FULL_RUN)
    full_run = _of_full_run(fitted(longer), longer) if compares_full_run(settings) else None
    return data.result(settings, decay_factor, stages, full_run)


def _checked_data(given: Tensor, folds: Tensor, checked: Tensor) -> FoldStages:
    """The labels and folds, once they are checked."""
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

"""Selects how cross-fitting uses checked examples, by those its students did not see."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from tutelage.crossfit.likelihoods import calibrated, last_not_worse
from tutelage.storage.json_files import write_json
from tutelage_cli.train.controls.folds import (
    CORRECTED,
    DISTILLED,
    PLAIN,
    TUNED,
    OutOfFold,
    read_out_of_fold,
    refined_by,
    transitions_of,
)
from tutelage_cli.train.controls.tuning import ControlInputs

PLAINLY, TUNED_ON_CHECKED = "plain", "fine-tuned"
ONE_ROUND, TWO_ROUNDS = "one round", "two rounds"
CANDIDATES = {
    PLAINLY: PLAIN,
    TUNED_ON_CHECKED: TUNED,
    ONE_ROUND: CORRECTED,
    TWO_ROUNDS: DISTILLED,
}
"""the candidates, in the order in which they use the checked examples more, and the students of
folds that each is evaluated by"""
SELECTED = "selected.json"


class Selected(NamedTuple):
    """The selected method."""

    method: str
    """one of ``CANDIDATES``"""
    out_of_fold: OutOfFold
    """what its students of folds predict"""
    transitions: Float[Tensor, "C C"]
    """which given label each class gets, refined by these predictions"""
    seconds: float
    """of all students of folds"""


def select(inputs: ControlInputs) -> Selected:
    """The last of ``CANDIDATES`` that is not shown to be worse than one before it.

    One is worse than another where the log-likelihood of the checked examples, each under the
    student of a fold that was not trained on it, is lower by more than two standard errors of
    the paired differences. Probabilities are calibrated by a temperature first, so that what
    counts is which class is likelier, not how sure a student is. A single checked example can
    decide nothing: the last is taken then.

    The likelihoods of the second round are too high: its students are trained on posteriors by
    students of other folds, which saw the checked examples of theirs. Those of the first are
    no measure of it either: the second is often much better.
    """
    material, checked = inputs.material, inputs.material.held_out.labels

    predictions = {
        method: read_out_of_fold(inputs.job, arm, material)
        for method, arm in CANDIDATES.items()
        if method != TWO_ROUNDS or inputs.job.settings.rounds > 1
    }
    likelihoods = {
        method: calibrated(out_of_fold.checked, checked)
        for method, out_of_fold in predictions.items()
    }
    chosen = list(likelihoods)[last_not_worse(list(likelihoods.values()))]
    rough = transitions_of(predictions[PLAINLY], material)
    means = {method: float(each.mean()) for method, each in likelihoods.items()}
    write_json(inputs.job.folder / SELECTED, {"method": chosen, "log_likelihood": means})
    return Selected(
        chosen,
        predictions[chosen],
        refined_by(predictions[chosen], material, rough),
        sum(out_of_fold.seconds for out_of_fold in predictions.values()),
    )

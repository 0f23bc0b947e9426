"""Selects how cross-fitting uses checked examples, which its students of folds did not see."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from tutelage.crossfit import StagePredictions
from tutelage.storage.json_files import write_json
from tutelage_cli.train.controls.folds import (
    CORRECTED,
    DISTILLED,
    PLAIN,
    fold_stages_of,
    read_out_of_fold,
    seconds_of_folds,
)
from tutelage_cli.train.controls.tuning import ControlInputs

AS_GIVEN, ONE_ROUND, TWO_ROUNDS = "given labels", "one round", "two rounds"
CANDIDATES = {AS_GIVEN: PLAIN, ONE_ROUND: CORRECTED, TWO_ROUNDS: DISTILLED}
"""the candidates, in the order in which they rely more on the checked examples, and the
students of folds that each is evaluated by"""
SELECTED = "selected.json"


class Selected(NamedTuple):
    """The selected method."""

    method: str
    """one of ``CANDIDATES``"""
    out_of_fold: StagePredictions
    """what its students of folds predict"""
    transitions: Float[Tensor, "C C"]
    """which given label each class gets, refined by these predictions"""
    posterior: Float[Tensor, "N C"]
    """over the right class of each training example"""
    seconds: float
    """of all students of folds"""


def select(inputs: ControlInputs) -> Selected:
    """Select by ``FoldStages.select``."""
    job, material = inputs.job, inputs.material
    data = fold_stages_of(material, job)
    arms = [arm for arm in CANDIDATES.values() if arm != DISTILLED or job.settings.rounds > 1]
    stages = [read_out_of_fold(job, arm, material) for arm in arms]
    place, likelihoods = data.select(stages)
    method = list(CANDIDATES)[place]
    refined = data.refined(stages[place], stages[0])
    means = dict(zip(CANDIDATES, likelihoods, strict=False))
    write_json(job.folder / SELECTED, {"method": method, "log_likelihood": means})
    return Selected(
        method,
        stages[place],
        refined,
        data.posterior(stages[place], refined),
        sum(seconds_of_folds(job, arm) for arm in arms),
    )

"""Which way to use checked examples is taken: by examples that students were not trained on."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from tutelage.storage.json_files import write_json
from tutelage_cli.train.controls.choosing import Case
from tutelage_cli.train.controls.folds import (
    CORRECTED,
    PLAIN,
    REFINED,
    TUNED,
    Unseen,
    calibrated,
    read_unseen,
    refined_by,
    transitions_of,
)

ONE_ROUND, TWO_ROUNDS = "one round", "two rounds"
WAYS = {
    "untaught": PLAIN,
    "fine-tuned": TUNED,
    ONE_ROUND: CORRECTED,
    TWO_ROUNDS: REFINED,
}
"""what may be taken, from the least to the most that is made of the checked examples, and the
students of folds that judge it"""
SELECTED = "selected.json"


class Selected(NamedTuple):
    """The way that is taken."""

    way: str
    """one of ``WAYS``"""
    unseen: Unseen
    """what its students of folds predict"""
    transitions: Float[Tensor, "C C"]
    """which given label each class gets, refined by these predictions"""
    seconds: float
    """of all students of folds"""


def select(case: Case) -> Selected:
    """The last of ``WAYS`` that is not shown to be worse than one before it.

    One is worse than another where the log-likelihood of the checked examples, each under the
    student of a fold that was not trained on it, is lower by more than two standard errors of
    the paired differences. Probabilities are calibrated by a temperature first, so that what
    counts is which class is likelier, not how sure a student is. A single checked example can
    judge nothing: the last is taken then.
    """
    material, checked = case.material, case.material.held_out.labels
    found = {way: read_unseen(case.job, arm, material) for way, arm in WAYS.items()}
    said = {way: calibrated(unseen.checked, checked) for way, unseen in found.items()}
    taken = _last_not_worse(said)
    rough = transitions_of(found["untaught"], material)
    means = {way: float(each.mean()) for way, each in said.items()}
    write_json(case.job.folder / SELECTED, {"way": taken, "log_likelihood": means})
    return Selected(
        taken,
        found[taken],
        refined_by(found[taken], material, rough, maximised=False),
        sum(unseen.seconds for unseen in found.values()),
    )


def _last_not_worse(said: dict[str, Tensor]) -> str:
    taken, *later = said
    for way in later:
        if len(said[way]) < 2 or not worse(said[way], said[taken]):
            taken = way
    return taken


def worse(one: Float[Tensor, "H"], other: Float[Tensor, "H"]) -> bool:
    """Whether the first is lower by more than two standard errors of the differences."""
    gains = one - other
    return float(gains.mean()) < -2 * float(gains.std()) / len(gains) ** 0.5

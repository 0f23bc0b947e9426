"""Tables of weights, losses and predictions of one student, the input of an inspection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

By = Literal["out-of-fold", "weight", "loss"]
OUT_OF_FOLD: By = "out-of-fold"
PROBABILITY = "probability_"
"""with the name of a class behind it, a column of out-of-fold predictions"""
AGREEMENT = 0.5
"""rank correlation of low weights and large losses from which on weights rank labels"""


@dataclass(frozen=True, eq=False)
class HeldOutTable:
    """What they say of M held-out examples, whose labels are taken to be right."""

    losses: Float[np.ndarray, "M"]
    """nats; NaN where not known"""
    weights: Float[np.ndarray, "M"]
    """that the teacher would give; NaN where not known"""
    computed: bool = True
    """whether what is not a number was computed so; in a table it is missing"""

    def __len__(self) -> int:
        return len(self.losses)


@dataclass(frozen=True, eq=False)
class ExampleTable:
    """What they say of N training examples."""

    student: str
    """such as ``margin-loss, seed 0``"""
    names: Sequence[str]
    """of the files, or numbers"""
    ids: Sequence[int]
    """row numbers in the source"""
    given: Sequence[str]
    """class names, as everywhere below"""
    predicted: Sequence[str]
    true: Sequence[str] | None
    """None where nobody knows them"""
    losses: Float[np.ndarray, "N"]
    weights: Float[np.ndarray, "N"]
    held_out: HeldOutTable | None
    contents: Sequence[str] | None = None
    """fingerprints of the images, see ``tutelage_cli.data.by_name``"""
    texts: Sequence[str] | None = None
    """the examples themselves, where they are texts"""
    epochs: Sequence[int] = ()
    """T of them"""
    past_losses: Float[np.ndarray, "N T"] | None = None
    """as the student's steps met the examples in these epochs"""
    past_weights: Float[np.ndarray, "N T"] | None = None
    wrong: Float[np.ndarray, "N D"] | None = None
    """by D draws the probability that the label is wrong, where there are predictions by
    students that were not trained on it"""
    learned: float = 1.0
    """gain of these predictions over one that is the same for all examples, in log-likelihood
    of checked ones and as a share of the untaught student's; infinite where that is none"""
    computed: bool = True
    """whether what is not a number was computed so; in a table it is missing"""
    notes: Sequence[str] = ()
    """what a reader must know of the source, a sentence each"""

    def __post_init__(self) -> None:
        """Check that every column speaks of as many examples."""
        columns = (self.ids, self.given, self.predicted, self.losses, self.weights)
        optional = (self.true, self.contents, self.texts, self.wrong)
        optional = (*optional, self.past_losses, self.past_weights)
        for column in (*columns, *(c for c in optional if c is not None)):
            if len(column) != len(self.names):
                raise ValueError(f"a column of {len(column)} beside {len(self.names)} names")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def weighs(self) -> bool:
        """Whether the teacher weighs examples differently."""
        known = self.weights[np.isfinite(self.weights)]
        return bool(len(known)) and bool((known != known[0]).any())


def scores(students: Sequence[ExampleTable]) -> list[By]:
    """By what labels of these students can be ranked."""
    usable: list[By] = []
    if all(one.wrong is not None for one in students):
        usable.append(OUT_OF_FOLD)
    if any(one.weighs for one in students) and _known(students, "weights"):
        usable.append("weight")
    return [*usable, "loss"] if _known(students, "losses") else usable


def agrees(one: ExampleTable) -> bool:
    """Whether a teacher gives low weights to examples of large loss.

    Teachers minimise the held-out loss. Some learn low weights for labels that are probably
    wrong, some the opposite, or neither; only with the first are labels ranked by weight.
    """
    weights, losses = issue_scores(one, "weight"), issue_scores(one, "loss")
    both = ~(np.isnan(weights) | np.isnan(losses))
    if not both.any():
        return False
    ranks = [mean_ranks(values[both]) for values in (weights, losses)]
    if any((rank == rank[0]).all() for rank in ranks):
        return False
    return bool(np.corrcoef(ranks)[0, 1] >= AGREEMENT)


def mean_ranks(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Ranks from 1, the least first; equal values, and missing ones, share the mean of theirs.

    SciPy's function takes half a second to import.
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _known(students: Sequence[ExampleTable], name: str) -> bool:
    sets = [table for one in students for table in (one, one.held_out) if table is not None]
    return all(np.isfinite(getattr(table, name)).any() for table in sets)


def issue_scores(table: ExampleTable | HeldOutTable, by: By) -> Float[np.ndarray, "N"]:
    """How likely each label is to be wrong, by weight, loss or folds; larger is likelier."""
    if by == OUT_OF_FOLD:
        assert isinstance(table, ExampleTable)
        assert table.wrong is not None
        return table.wrong.mean(1)
    values = (-table.weights if by == "weight" else table.losses).astype(np.float64)
    return np.where(np.isnan(values), np.inf, values) if table.computed else values


def known_issue_scores(table: HeldOutTable, by: By) -> Float[np.ndarray, "M"]:
    """The scores of those held-out examples of which they are known."""
    values = issue_scores(table, by)
    return values[~np.isnan(values)]

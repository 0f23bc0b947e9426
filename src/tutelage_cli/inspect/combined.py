"""Weights, losses and probabilities of each label, averaged over the students of an arm."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Integer

from tutelage_cli.inspect.example_tables import (
    OUT_OF_FOLD,
    By,
    ExampleTable,
    issue_scores,
    known_issue_scores,
    mean_ranks,
)
from tutelage_cli.inspect.threshold import by_majority, p_values

LIKELY = 0.5
"""probability from which on a label is called likely wrong"""
LEVEL = 0.9
"""probability that the number of wrong labels lies in the printed interval"""


@dataclass(frozen=True, eq=False)
class Labels:
    """N labels, the most suspect first.

    An example whose label differs between seeds, as where noise is drawn anew, is one label
    for each.
    """

    by: By
    names: list[str]
    ids: list[int]
    given: list[str]
    predicted: list[str]
    """by most students; of as many, by the first"""
    true: list[str] | None
    weights: Float[np.ndarray, "N"]
    """mean over the students that were trained on it, as everywhere below"""
    losses: Float[np.ndarray, "N"]
    mean_rank: Float[np.ndarray, "N"]
    """mean place among a student's examples by score, then loss: 0 the largest, 1 the least;
    the mean place of those with both equal; NaN where the score is missing"""
    students: Integer[np.ndarray, "N"]
    """how many were trained on it"""
    distrusted: Integer[np.ndarray, "N"]
    """how many flag it; without held-out examples, have it among their first"""
    flagged: Bool[np.ndarray, "N"] | None
    """by more than half, or more probably wrong than right; None where no held-out examples
    give a threshold"""
    texts: list[str] | None
    contents: list[str] | None
    epochs: Sequence[int]
    past_losses: Float[np.ndarray, "N T"] | None
    past_weights: Float[np.ndarray, "N T"] | None
    wrong: Float[np.ndarray, "N D"] | None = None
    """by D draws the probability that the label is wrong, where all goes by that"""

    def __len__(self) -> int:
        return len(self.names)

    def error_count_interval(
        self, rows: Bool[np.ndarray, "N"] | None = None
    ) -> tuple[int, int]:
        """Interval of the number of wrong labels among some, or all, by their draws."""
        import torch

        from tutelage.crossfit import LabelErrors, error_count_interval

        assert self.wrong is not None
        each = torch.from_numpy(np.ascontiguousarray(self.wrong.T))
        only = None if rows is None else torch.from_numpy(np.ascontiguousarray(rows))
        errors = LabelErrors(each.mean(0), each, each.new_zeros(0, 0), 1.0)
        return error_count_interval(errors, only, level=LEVEL)

    def first_flagged(self, most: int) -> list[int]:
        """The rows of the flagged labels."""
        return [] if self.flagged is None else np.flatnonzero(self.flagged)[:most].tolist()


def combined(students: Sequence[ExampleTable], by: By, *, max_fpr: float, top: int) -> Labels:
    """Put together what students say."""
    index = _index(students)
    flags = [_flags(one, by, max_fpr, top) for one in students]
    known = [~np.isnan(issue_scores(one, by)) for one in students]
    mean_rank = index.mean([_ranks(one, by) for one in students])
    wrong = None
    if by == OUT_OF_FOLD:  # a draw supposes the same in all students
        wrong = index.mean([one.wrong for one in students if one.wrong is not None])
        mean_rank = 1 - wrong.mean(1)
    losses = index.mean([one.losses for one in students])
    rows = np.lexsort((-losses, mean_rank))
    flagged = None
    if wrong is not None:
        flagged = wrong.mean(1) > LIKELY
    elif all(one.held_out is not None for one in students):
        flagged = _majority(flags, known, index.places)
    epochs = _same_epochs(students)
    return Labels(
        by=by,
        names=index.texts("names", rows) or [],
        ids=index.texts("ids", rows) or [],
        given=index.texts("given", rows) or [],
        predicted=index.most("predicted", rows),
        true=index.texts("true", rows),
        weights=index.mean([one.weights for one in students])[rows],
        losses=losses[rows],
        mean_rank=mean_rank[rows],
        students=index.known[rows],
        distrusted=index.total(flags)[rows].astype(int),
        flagged=None if flagged is None else flagged[rows],
        texts=index.texts("texts", rows),
        contents=index.texts("contents", rows),
        epochs=epochs,
        past_losses=index.past("past_losses", epochs, rows),
        past_weights=index.past("past_weights", epochs, rows),
        wrong=None if wrong is None else wrong[rows],
    )


@dataclass(frozen=True, eq=False)
class _Index:
    """Where each student has each label."""

    students: Sequence[ExampleTable]
    places: list[Integer[np.ndarray, "n"]]
    """student by student, the label of each of its rows"""
    known: Integer[np.ndarray, "N"]
    """students that have the label"""
    first: Integer[np.ndarray, "N"]
    """the first row of each label, counted through all students"""

    def total(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Sum up over students."""
        sums = np.zeros((len(self.first), *columns[0].shape[1:]))
        for at, column in zip(self.places, columns, strict=True):
            sums[at] += column
        return sums

    def mean(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Average over the students that have the label and know the number."""
        sums = self.total([np.where(np.isnan(column), 0, column) for column in columns])
        present = self.total([(~np.isnan(column)).astype(float) for column in columns])
        return np.divide(sums, present, out=np.full(sums.shape, np.nan), where=present > 0)

    def past(self, name: str, epochs: Sequence[int], order: np.ndarray) -> np.ndarray | None:
        """Average what was measured epoch by epoch."""
        if not epochs:
            return None
        return self.mean([getattr(one, name) for one in self.students])[order]

    def texts(self, name: str, order: np.ndarray) -> list[Any] | None:
        """What the first student says, of what all say alike."""
        columns = [getattr(one, name) for one in self.students]
        if any(column is None for column in columns):
            return None
        rows = list(chain(*columns))
        return [rows[row] for row in self.first[order].tolist()]

    def most(self, name: str, order: np.ndarray) -> list[str]:
        """What most students say; of as many, the first."""
        if len(self.students) == 1:
            return self.texts(name, order) or []
        texts: list[list[str]] = [[] for _ in self.first]
        for one, at in zip(self.students, self.places, strict=True):
            for place, text in zip(at.tolist(), getattr(one, name), strict=True):
                texts[place].append(text)
        return [Counter(texts[n]).most_common(1)[0][0] for n in order.tolist()]


def _index(students: Sequence[ExampleTable]) -> _Index:
    if _aligned(students):
        rows = np.arange(len(students[0]))
        return _Index(students, [rows] * len(students), np.full(len(rows), len(students)), rows)
    keys: dict[tuple[str, str], int] = {}
    places = [
        np.array([
            keys.setdefault(key, len(keys)) for key in zip(one.names, one.given, strict=True)
        ])
        for one in students
    ]
    _, first, known = np.unique(np.concatenate(places), return_index=True, return_counts=True)
    return _Index(students, places, known, first)


def _aligned(students: Sequence[ExampleTable]) -> bool:
    # whether all have the same labels in the same order, of examples that differ in name
    names, given = students[0].names, students[0].given
    return len(set(names)) == len(names) and all(
        one.names == names and one.given == given for one in students[1:]
    )


def _ranks(one: ExampleTable, by: By) -> Float[np.ndarray, "N"]:
    # of equal scores the one with the larger loss comes first; labels with both equal share
    # the mean of their places
    scores, count = issue_scores(one, by), len(one)
    both = mean_ranks(-scores) * (count + 1) + mean_ranks(-one.losses)
    places = (mean_ranks(both) - 1) / max(count - 1, 1)
    return np.where(np.isnan(scores), np.nan, places)


def _among_first(one: ExampleTable, by: By, top: int) -> Bool[np.ndarray, "N"]:
    # of equal scores the larger losses, and of equal losses the first rows
    scores = issue_scores(one, by)
    first = np.zeros(len(one), dtype=bool)
    first[np.lexsort((-one.losses, -scores))[:top]] = True
    return first & ~np.isnan(scores)


def _flags(one: ExampleTable, by: By, max_fpr: float, top: int) -> Bool[np.ndarray, "N"]:
    if by == OUT_OF_FOLD:
        return issue_scores(one, by) > LIKELY
    if one.held_out is None:
        return _among_first(one, by, top)
    scores = issue_scores(one, by)
    ranked = p_values(scores, known_issue_scores(one.held_out, by)) <= max_fpr + 1e-12
    return ranked & ~np.isnan(scores)


def _majority(
    flags: Sequence[np.ndarray], known: Sequence[np.ndarray], places: Sequence[np.ndarray]
) -> Bool[np.ndarray, "N"]:
    # of the students that have a score for a label: what is missing says nothing
    count = max(int(at.max()) for at in places) + 1
    known_flags = [one[present] for one, present in zip(flags, known, strict=True)]
    at = [one[present] for one, present in zip(places, known, strict=True)]
    return by_majority(known_flags, at, count)


def _same_epochs(students: Sequence[ExampleTable]) -> tuple[int, ...]:
    kinds = {tuple(one.epochs) for one in students if one.past_losses is not None}
    complete = all(one.past_losses is not None for one in students)
    return kinds.pop() if complete and len(kinds) == 1 else ()

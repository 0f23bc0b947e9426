"""Predicted probabilities in a table of the user: a column for each class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tutelage.errors import UsageError, first_few
from tutelage_cli.data.columns import TableRows
from tutelage_cli.data.example_columns import finite
from tutelage_cli.inspect.example_tables import PROBABILITY, ExampleTable
from tutelage_cli.inspect.out_of_fold import with_probabilities

SUM_TOLERANCE = 0.02
"""by how much a row may miss a sum of one, as where few digits are written"""


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """Out-of-fold predictions of all rows of a table."""

    classes: Sequence[str]
    probabilities: Tensor
    """[N, C]"""
    labels: Tensor
    """[N] given ones, right ones of held-out rows; -1 where there is none"""

    def with_errors(
        self, own: ExampleTable, trained: np.ndarray, checked: np.ndarray
    ) -> ExampleTable:
        """Add the probability that each label of the training rows is wrong."""
        rows, others = torch.from_numpy(trained), torch.from_numpy(checked)
        checked_p, right = self.probabilities[others], self.labels[others]
        found = with_probabilities(
            own, self.probabilities[rows], self.labels[rows], checked_p, right
        )
        losses = np.where(np.isnan(own.losses), found.losses, own.losses)
        best = [self.classes[n] for n in self.probabilities[rows].argmax(1).tolist()]
        named = any(own.predicted)
        return replace(found, losses=losses, predicted=own.predicted if named else best)


def read_probabilities(
    columns: Mapping[str, Sequence[Any]], labels: Sequence[str], rows: TableRows
) -> ClassProbabilities:
    """The predictions of a table that has columns of such."""
    names = [name for name in columns if name.startswith(PROBABILITY)]
    classes = [name.removeprefix(PROBABILITY) for name in names]
    if lacking := sorted({label for label in labels if label} - set(classes)):
        raise UsageError(
            f"{rows.where} has columns {first_few(names, 5)} but none of the class "
            f"'{lacking[0]}': give {PROBABILITY}{lacking[0]}, or 0 for what is never predicted."
        )
    numbers = np.array([
        [_number(columns[n][row], n, row, rows) for n in names] for row in range(len(labels))
    ])
    sums = numbers.sum(1)
    if off := np.flatnonzero(
        (numbers < 0).any(1) | (np.abs(sums - 1) > SUM_TOLERANCE)
    ).tolist():
        raise UsageError(
            f"{rows.at(off[0])} has probabilities that are below 0 or sum to "
            f"{sums[off[0]]:.3g}; allowed: numbers of 0 and above that sum to 1."
        )
    places = {name: place for place, name in enumerate(classes)}
    found = torch.from_numpy(numbers / sums[:, None])
    return ClassProbabilities(
        classes, found, torch.tensor([places.get(label, -1) for label in labels])
    )


def _number(value: Any, name: str, row: int, rows: TableRows) -> float:
    number = finite(value)
    if number is None:
        raise UsageError(f"{rows.at(row)} has {value!r:.50} under {name}; allowed: 0..1.")
    return number

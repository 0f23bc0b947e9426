"""What judges students is not trained on: copies are found by content, left out and counted."""

import logging
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError, one_line
from tutelage_cli.data.overlap import content_numbers, overlap, tested_on_training
from tutelage_cli.train.texts import Data, kind

_LOG = logging.getLogger(__name__)


class Contents(NamedTuple):
    """Numbers that are equal where two examples hold the same."""

    train: Tensor
    """[N]"""
    trusted: Tensor | None = None
    """of the examples that judge in place of training examples"""


def contents_of(
    train: Data, test: Data, trusted: Data | None, where: str | None
) -> tuple[Contents, tuple[str, ...]]:
    """Look for copies among all parts of the data."""
    judging = () if trusted is None else (trusted,)
    own, tested, *others = content_numbers(train, test, *judging)
    notes = [tested_on_training(train, test, own, tested)]
    for part, numbers in zip(judging, others, strict=True):
        notes.append(_of_trusted(train, part, own, numbers, str(where)))
        notes.append(_tested_on_trusted(part, numbers, tested, str(where)))
    if trusted is None:
        notes.append(_of_twins(train, own))
    told = tuple(filter(None, notes))
    for note in told:
        _LOG.warning(note)
    return Contents(own, *others), told


def without_copies(
    rows: Tensor, train: Data, contents: Contents, judging: Tensor, where: str | None
) -> Tensor:
    """Training rows without those that have a copy among the examples that judge."""
    copies = torch.isin(contents.train[rows], judging)
    if not copies.any():
        return rows
    labels = train.labels[rows]
    counts = torch.bincount(labels[~copies], minlength=len(train.classes))
    lost = labels.unique()[counts[labels.unique()] == 0]
    if len(lost) and where is not None:
        name = one_line(train.classes[int(lost[0])])
        raise UsageError(
            f"held_out_from {where} holds a copy of every training example of class "
            f"'{name}', and what judges is not trained on: take some "
            "out of it."
        )
    return rows[~copies | torch.isin(labels, lost)]


def has_copies(contents: Contents) -> bool:
    """Whether some training example may be left out as a copy of one that judges."""
    if contents.trusted is not None:
        return bool(torch.isin(contents.train, contents.trusted).any())
    return len(contents.train.unique()) < len(contents.train)


def _of_trusted(train: Data, part: Data, own: Tensor, numbers: Tensor, where: str) -> str:
    found = overlap(train, own, numbers)
    if not found.copies:
        return ""
    return (
        f"{found.copies} of the {len(own)} training {kind(train)} of {train.name} are copies "
        f"of {kind(part)} of {where} ({found.listed}), which judge students: they are not "
        "trained on."
    )


def _tested_on_trusted(part: Data, numbers: Tensor, tested: Tensor, where: str) -> str:
    found = overlap(part, numbers, tested)
    if not found.copies:
        return ""
    return (
        f"{found.copies} of the {len(numbers)} {kind(part)} of {where}, which judge students, "
        f"are copies of test {kind(part)} ({found.listed}): the test figure is not of unseen "
        "ones. Take them out of one of the two."
    )


def _of_twins(train: Data, own: Tensor) -> str:
    counts = own.bincount()
    twins = counts[own] > 1
    if not twins.any():
        return ""
    name = train.names()[int(twins.nonzero()[0])]
    return (
        f"{int(twins.sum())} training {kind(train)} of {train.name} have copies among one "
        f"another (the first is {name}): where one is held out to judge students, its copies "
        "are not trained on."
    )

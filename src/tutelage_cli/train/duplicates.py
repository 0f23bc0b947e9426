"""Copies of held-out examples are found by content and left out of training."""

import logging
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.errors import UsageError, one_line
from tutelage_cli.data.overlap import content_numbers, overlap, tested_on_training
from tutelage_cli.train.texts import Data, kind

_LOG = logging.getLogger(__name__)


class Contents(NamedTuple):
    """Numbers that are equal for examples of equal content."""

    train: Tensor
    """[N]"""
    trusted: Tensor | None = None
    """of held-out examples from a source of their own"""


def contents_of(
    train: Data, test: Data, trusted: Data | None, where: str | None
) -> tuple[Contents, tuple[str, ...]]:
    """Number all parts of the data by content, and log the copies that are found."""
    held_out = () if trusted is None else (trusted,)
    own, tested, *others = content_numbers(train, test, *held_out)
    notes = [tested_on_training(train, test, own, tested)]
    for part, numbers in zip(held_out, others, strict=True):
        notes.append(_held_out_copies_note(train, part, own, numbers, str(where)))
        notes.append(_test_copies_note(part, numbers, tested, str(where)))
    if trusted is None:
        notes.append(_duplicates_note(train, own))
    messages = tuple(filter(None, notes))
    for note in messages:
        _LOG.warning(note)
    return Contents(own, *others), messages


def without_copies(
    rows: Tensor, train: Data, contents: Contents, held_out_contents: Tensor, where: str | None
) -> Tensor:
    """Training rows without copies of held-out examples."""
    copies = torch.isin(contents.train[rows], held_out_contents)
    if not copies.any():
        return rows
    labels = train.labels[rows]
    counts = torch.bincount(labels[~copies], minlength=len(train.classes))
    lost = labels.unique()[counts[labels.unique()] == 0]
    if len(lost) and where is not None:
        name = one_line(train.classes[int(lost[0])])
        raise UsageError(
            f"--held-out-from {where} holds a copy of every training example of class "
            f"'{name}', and held-out and test examples are not trained on: take some "
            "out of it."
        )
    return rows[~copies | torch.isin(labels, lost)]


def has_copies(contents: Contents) -> bool:
    """Whether some training example may be a copy of a held-out one."""
    if contents.trusted is not None:
        return bool(torch.isin(contents.train, contents.trusted).any())
    return len(contents.train.unique()) < len(contents.train)


def _held_out_copies_note(
    train: Data, part: Data, own: Tensor, numbers: Tensor, where: str
) -> str:
    found = overlap(train, own, numbers)
    if not found.copies:
        return ""
    return (
        f"{found.copies} of the {len(own)} training {kind(train)} of {train.name} are copies "
        f"of {kind(part)} of {where} ({found.listed}), which are held out: they are not "
        "trained on."
    )


def _test_copies_note(part: Data, numbers: Tensor, tested: Tensor, where: str) -> str:
    found = overlap(part, numbers, tested)
    if not found.copies:
        return ""
    return (
        f"{found.copies} of the {len(numbers)} {kind(part)} of {where}, which are held out, "
        f"are copies of test {kind(part)} ({found.listed}): test accuracy is then not on "
        "unseen examples. Take them out of one of the two."
    )


def _duplicates_note(train: Data, own: Tensor) -> str:
    counts = own.bincount()
    duplicates = counts[own] > 1
    if not duplicates.any():
        return ""
    name = train.names()[int(duplicates.nonzero()[0])]
    return (
        f"{int(duplicates.sum())} training {kind(train)} of {train.name} have copies among "
        f"one another (the first is {name}): where one is held out, its copies are not "
        "trained on."
    )

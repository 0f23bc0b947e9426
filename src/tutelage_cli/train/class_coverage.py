"""Checks that every class keeps training examples."""

import logging

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.assemble import about_others
from tutelage_cli.data.splits import most_balanced, require_balanced
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.texts import Data, kind

_LOG = logging.getLogger(__name__)


def missing_class_notes(
    train: Data, given: Tensor | None, trusted: Data | None
) -> tuple[str, ...]:
    """Log which classes the training labels or the held-out labels lack, and return that."""
    labels, classes = train.labels, train.classes
    notes: tuple[str, ...] = ()
    if given is not None:
        notes += about_others(labels, given, classes, of="label that is trained on")
    if trusted is not None:
        notes += about_others(labels, trusted.labels, classes, of="held-out example")
    for note in notes:
        _LOG.warning(note)
    return notes


def require_training_examples(train: Data, size: int, *, given: bool) -> None:
    """Refuse a held-out size that leaves a class without training examples."""
    if size >= len(train):
        raise UsageError(
            f"--held-out {size} leaves nothing to train on: {train.name} has {len(train)} "
            f"training {kind(train)}; give fewer, {most_balanced(train.labels, keep=1)} at "
            "most, or --held-out-from."
        )
    require_balanced(
        train.labels,
        size,
        train.classes,
        flag=f"--held-out {size}" if given else f"--held-out {size} (the default here)",
    )


def require_classes(train: Data, left: Tensor, settings: TrainSettings) -> None:
    """Refuse an imbalance or a limit that leaves a class without examples."""
    counts = torch.bincount(left, minlength=len(train.classes))
    if settings.imbalance is not None and not bool(counts.all()):
        lacking = [train.classes[c] for c in (counts == 0).nonzero().flatten().tolist()]
        raise UsageError(
            f"--imbalance {settings.imbalance:g} needs training {kind(train)} of every class, "
            f"but there are none of {', '.join(lacking)}: leave it away, or add some."
        )
    present = int((counts > 0).sum())
    if settings.limit is not None and settings.limit < present:
        raise UsageError(
            f"--limit {settings.limit} leaves no example of some of the {present} classes of "
            f"{train.name}; allowed: {present} and above."
        )

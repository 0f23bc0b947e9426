"""Random rows of a data set: with its classes in balance, or with a long tail of them."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage_cli.data.labelled import Set, Splits

_HOLD_OUT_SEED = 0
_HOLD_OUT = 5
"""one row in so many is held out"""


def balanced_rows(
    labels: Int64[Tensor, "N"], size: int, classes: int, *, seed: int, keep: int = 0
) -> tuple[Int64[Tensor, "M"], Int64[Tensor, "R"]]:
    """Random rows with the same number of every class, and all the other rows.

    Where ``size`` is not a multiple of ``classes``, the classes that give one row more are
    drawn at random. Classes that no row has do not count.
    """
    if not 0 <= size <= len(labels):
        raise UsageError(f"size is {size}; allowed: 0..{len(labels)}, the rows there are.")
    counts = torch.bincount(labels, minlength=classes)
    there = counts > 0
    present = int(there.sum())
    base, extra = divmod(size, max(present, 1))
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(classes, generator=generator)
    order = order[counts[order] - keep > base][:extra]
    quota = base * there.long()
    quota[order] += 1
    if int(quota.sum()) < size or bool((counts - keep < quota)[there].any()):
        poorest = int(torch.where(there, counts, len(labels) + 1).argmin())
        raise UsageError(
            f"{size} rows balanced over {present} classes need {-(-size // present)} of each, "
            f"but class {poorest} has {int(counts[poorest])}; give fewer rows, at most "
            f"{most_balanced(labels, keep=keep)}."
        )
    return _drawn(labels, quota, generator)


def most_balanced(labels: Int64[Tensor, "N"], *, keep: int = 0) -> int:
    """How many rows ``balanced_rows`` can choose at most."""
    counts = torch.bincount(labels) - keep
    counts = counts[counts > -keep]
    if not len(counts) or int(counts.min()) < 0:
        return 0
    least = int(counts.min())
    return least * len(counts) + int((counts > least).sum())


def require_balanced(
    labels: Int64[Tensor, "N"], size: int, names: Sequence[str], *, flag: str
) -> None:
    """Refuse to take more examples than leave one of each class to train on."""
    most = most_balanced(labels, keep=1)
    if size <= most:
        return
    counts = torch.bincount(labels, minlength=len(names))
    poorest = int(torch.where(counts > 0, counts, len(labels) + 1).argmin())
    present = int((counts > 0).sum())
    smaller = f"give {flag.split()[0]} {most} at most, or " if most else ""
    raise UsageError(
        f"{flag} takes {-(-size // present)} of each of {present} classes, but class "
        f"'{names[poorest]}' has {int(counts[poorest])} training examples, of which one has to "
        f"stay: {smaller}add examples of it, or give --held-out-from."
    )


def limit_rows(
    labels: Int64[Tensor, "N"], limit: int, classes: int, *, seed: int
) -> Int64[Tensor, "M"]:
    """At most ``limit`` random rows, the same number of every class.

    Where a class is too short for that, every class gives its share of the data set instead
    (largest remainders), and one row at least where the limit allows one of each. Where there
    are no more than ``limit`` rows, all are kept.
    """
    if limit < 1:
        raise UsageError(f"limit is {limit}; allowed: 1 and above.")
    if limit >= len(labels):
        return torch.arange(len(labels))
    counts = torch.bincount(labels, minlength=classes)
    present = int((counts > 0).sum())
    if int(counts[counts > 0].min()) >= -(-limit // present):
        return balanced_rows(labels, limit, classes, seed=seed)[0]
    share = counts.double() * limit / len(labels)
    quota = share.long()
    rest = (share - quota).argsort(descending=True, stable=True)
    quota[rest[: limit - int(quota.sum())]] += 1
    while limit >= present and bool((lost := (counts > 0) & (quota == 0)).any()):
        quota[quota.argmax()] -= 1
        quota[int(lost.nonzero()[0])] = 1
    return _drawn(labels, quota, torch.Generator().manual_seed(seed))[0]


def hold_out(examples: Set) -> Splits[Set]:
    """A fixed fifth of every class as test split, the rest as train split."""
    train, test = held_out_rows(examples.labels, len(examples.classes), name=examples.name)
    return Splits(examples.rows(train), examples.rows(test))


def held_out_rows(
    labels: Int64[Tensor, "N"], classes: int, *, name: str
) -> tuple[Int64[Tensor, "R"], Int64[Tensor, "M"]]:
    """Rows for a train part, and a fixed fifth of every class for a test part.

    A class of n >= 2 examples gives round(n / 5) of them and at least one; a class of a single
    example stays in train. The choice depends on the labels alone.
    """
    counts = np.bincount(labels.numpy(), minlength=classes)
    quota = np.where(counts >= 2, np.maximum(1, np.rint(counts / _HOLD_OUT)), 0)
    if not quota.any():
        raise UsageError(
            f"{name} has no test split and no class with two examples to hold one out; add a "
            "test split."
        )
    generator = torch.Generator().manual_seed(mixed_seed(_HOLD_OUT_SEED, len(labels)))
    test, train = _drawn(labels, torch.from_numpy(quota).long(), generator)
    return train, test


def _drawn(labels: Tensor, quota: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    # quota[c] random rows of every class c, and all the other rows.
    shuffled = torch.randperm(len(labels), generator=generator)
    grouped = shuffled[labels[shuffled].argsort(stable=True)]
    counts = torch.bincount(labels, minlength=len(quota))
    starts = counts.cumsum(0) - counts
    place = torch.arange(len(labels)) - starts[labels[grouped]]
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    chosen[grouped[place < quota[labels[grouped]]]] = True
    return chosen.nonzero().flatten(), (~chosen).nonzero().flatten()


HELD_OUT_NAMES = ("validation", "valid", "val", "dev")


def long_tailed_rows(
    labels: Int64[Tensor, "N"], factor: float, classes: int, *, seed: int
) -> Int64[Tensor, "M"]:
    """Random rows such that class c keeps ``n factor^(-c / (C - 1))`` of them.

    With n the size of the smallest class, the first class keeps n and the last n / factor;
    each keeps one at least.

    Source: Cui et al. 2019, "Class-Balanced Loss Based on Effective Number of Samples".
    """
    if not 1 <= factor < float("inf"):
        raise UsageError(
            f"--imbalance is {factor:g}; allowed: 1 (none) and above, such as 100."
        )
    counts = torch.bincount(labels, minlength=classes)
    if not int(counts.min()):
        empty = int(counts.argmin())
        raise UsageError(f"--imbalance needs images of every class; {empty} has none.")
    largest, chosen = int(counts.min()), []
    for c in range(classes):
        share = factor ** (-c / max(classes - 1, 1))
        rows = (labels == c).nonzero().flatten()
        draws = torch.Generator().manual_seed(mixed_seed(seed, c))
        order = torch.randperm(len(rows), generator=draws)
        chosen.append(rows[order[: max(1, int(largest * share))]])
    return torch.cat(chosen).sort().values

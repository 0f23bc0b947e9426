"""Labelled examples, whatever they are, as a train and a test split."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

import torch
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.mapped import Rows

Own = TypeVar("Own", bound="Labelled")
"""the subclass"""


class Labelled(ABC):
    """N examples with a class each; its subclasses are frozen dataclasses with these fields."""

    example: ClassVar[str]
    """the singular noun for one of them"""
    labels: Tensor
    """int64 [N], each in 0..len(classes) - 1"""
    ids: Tensor
    """int64 [N]: row number in the source split, kept when rows are chosen or relabelled"""
    classes: tuple[str, ...]
    """the name of every class, in the order of the labels"""
    name: str
    """the data set's name"""
    sources: tuple[str, ...] = ()
    """by id, not by place: what each row of the source split is called, such as the path of its
    file below the source; empty where rows have no names"""

    def __len__(self) -> int:
        return len(self.labels)

    def names(self) -> list[str]:
        """What every example is called, the same for as long as its file keeps its name."""
        if not self.sources:
            return [str(number) for number in self.ids.tolist()]
        return [self.sources[number] for number in self.ids.tolist()]

    @abstractmethod
    def contents(self) -> Iterator[bytes]:
        """What makes an example another one than others, for each of the N."""

    @abstractmethod
    def tensors(self) -> tuple[Rows, ...]:
        """All that decides what a student sees."""

    def rows(self: Own, indices: Tensor) -> Own:
        """The examples at the given places, in that order, with the ids they had."""
        columns = {k: v[indices] for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(cast(Any, self), **columns | self.other_rows(indices))

    def other_rows(self, indices: Tensor) -> dict[str, Any]:
        """The columns that are no tensors, at the given places."""
        del indices
        return {}

    def concatenated(
        self: Own, other: "Labelled", ids: Tensor | None = None, names: tuple[str, ...] = ()
    ) -> Own:
        """These examples and, after them, others; by default under ids that none here has."""
        if ids is None:
            first = int(self.ids.max()) + 1 if len(self) else 0
            ids = torch.cat([self.ids, first + torch.arange(len(other))])
        columns = self.columns_with(other) | {"labels": torch.cat([self.labels, other.labels])}
        return replace(cast(Any, self), **columns, ids=ids, sources=names)

    @abstractmethod
    def columns_with(self, other: Any) -> dict[str, Any]:
        """The columns of this kind of examples, those of others after them."""

    def refuse_unlike(self, test: Any) -> None:  # noqa: B027 - texts may differ in length
        """Refuse a test split whose examples have another shape than these."""

    def with_labels(self: Own, labels: Tensor) -> Own:
        """The same examples under other labels."""
        return replace(cast(Any, self), labels=labels)

    def require_labels(self, count: int) -> None:
        """Check the type, the number and the range of labels, and the ids."""
        for role, column in (("labels", self.labels), ("ids", self.ids)):
            if column.dtype != torch.int64 or column.shape != (count,):
                raise UsageError(
                    f"{role} of {self.name} are {column.dtype} of shape {tuple(column.shape)}; "
                    f"give torch.int64 of shape [{count}], one for each {self.example}."
                )
        wrong = (self.labels < 0) | (self.labels >= len(self.classes))
        if wrong.any():
            row = int(wrong.nonzero()[0])
            raise UsageError(
                f"row {row} of {self.name} has label {int(self.labels[row])}; "
                f"allowed: 0..{len(self.classes) - 1}, the places in classes."
            )


Set = TypeVar("Set", bound=Labelled)
SetCo = TypeVar("SetCo", bound=Labelled, covariant=True)


@dataclass(frozen=True)
class Splits(Generic[SetCo]):
    """The two splits of a data set, with the same classes."""

    train: SetCo
    """for learning"""
    test: SetCo
    """for the final figure only"""
    notes: tuple[str, ...] = ()
    """what is worth knowing about the source, a sentence each: what was left out of it, classes
    that no example has, classes that may be one"""

    def __post_init__(self) -> None:
        """Check that both splits have the same classes and shape."""
        if self.train.classes != self.test.classes:
            raise UsageError(
                f"{self.train.name} has classes {', '.join(self.train.classes)} in train and "
                f"{', '.join(self.test.classes)} in test; both must list the same."
            )
        self.train.refuse_unlike(self.test)

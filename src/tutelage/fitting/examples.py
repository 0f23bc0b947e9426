"""Examples by index, of tensors, arrays or a data set, checked where they are read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
)

from tutelage.data.loaders import Indexed
from tutelage.data.order import BatchRequest
from tutelage.errors import UsageError, first_line
from tutelage.randomness import seeded_generators
from tutelage.types import Batch
from tutelage.validation.shapes import described, kind

PAIR = "a pair (inputs, class ids) of tensors or arrays, or a data set of such pairs"
NOT_INDEXED = str, Mapping, Tensor, np.ndarray, IterableDataset
SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
"""of dtypes that torch 2.9 does not index, those of the same size that it does"""


@dataclass(frozen=True)
class Examples:
    """N examples: a pair of tensors, or a data set."""

    name: str
    source: tuple[Tensor, Tensor] | Indexed
    dtype: torch.dtype
    """of inputs that are floating-point numbers"""
    classes: int | None = None
    """number of classes: labels are below; None until the student's logits are known"""
    sound: bool = False
    """whether all of them were read and checked"""

    @classmethod
    def of(cls, name: str, data: Any, dtype: torch.dtype) -> "Examples":
        """Examples from what a user gives."""
        found = cls(name, _source(name, data), dtype)
        if not len(found):
            raise UsageError(f"{name} is empty; allowed: one example and more.")
        return found

    @property
    def in_memory(self) -> bool:
        """Whether it is a pair of tensors."""
        return isinstance(self.source, tuple)

    def __len__(self) -> int:
        return len(self.source[1] if isinstance(self.source, tuple) else self.source)

    def read(self, rows: Tensor) -> Batch:
        """The examples with these indices, which are their ids."""
        if isinstance(self.source, tuple):
            inputs, labels = (_rows_of(part, rows) for part in self.source)
        else:
            inputs, labels = self._collated([self.source[row] for row in rows.tolist()])
        inputs, labels = inputs.detach(), labels.detach()
        if inputs.is_floating_point():
            inputs = inputs.to(self.dtype)
        if not self.sound:
            self._check(inputs, labels, rows)
        return Batch(inputs, labels.long(), rows)

    def of_rows(self, rows: Tensor) -> "Examples":
        """Some of the examples of a pair of tensors."""
        assert isinstance(self.source, tuple)
        inputs, labels = (_rows_of(part, rows) for part in self.source)
        return replace(self, source=(inputs, labels))

    def _collated(self, found: list[Any]) -> tuple[Tensor, Tensor]:
        try:
            inputs, labels = default_collate([tuple(pair) for pair in found])
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"{self.name} gives examples that make no batch: {first_line(error)}. "
                "Allowed: pairs of an input, a tensor of the same shape for all, and a class "
                "id. Give images a transform to tensors of one size."
            ) from error
        if not isinstance(inputs, Tensor) or not isinstance(labels, Tensor):
            wrong = inputs if not isinstance(inputs, Tensor) else labels
            raise UsageError(f"{self.name} gives {kind(wrong)}; allowed: {PAIR}.")
        return inputs, labels

    def _check(self, inputs: Tensor, labels: Tensor, rows: Tensor) -> None:
        if labels.ndim != 1 or labels.is_floating_point() or labels.is_complex():
            raise UsageError(
                f"{self.name} has labels that are {described(labels)}; allowed: class ids, a "
                "whole number for each example."
            )
        if inputs.is_floating_point() and not bool(inputs.isfinite().all()):
            row = int(rows[(~inputs.isfinite()).reshape(len(inputs), -1).any(1).cpu()][0])
            raise UsageError(
                f"{self.name} has inputs that are no finite numbers, first in example {row}; "
                "leave such examples out, or fill the gaps."
            )
        ids = labels.long().cpu()  # narrow types do not hold the number of classes
        wrong, allowed = ids < 0, "0 and above, below the number of the student's logits"
        if self.classes is not None:
            wrong |= ids >= self.classes
            allowed = f"0..{self.classes - 1}, as the student gives {self.classes} logits"
        if bool(wrong.any()):
            label, row = int(ids[wrong][0]), int(rows[wrong][0])
            raise UsageError(
                f"example {row} of {self.name} has label {label}; allowed: {allowed}."
            )

    def batches(
        self, requests: list[BatchRequest], device: torch.device, workers: int = 0
    ) -> Iterator[Batch]:
        """Batches on a device; random transforms depend on a batch's seed alone."""
        if self.in_memory:  # nothing is drawn, and ``more`` is in memory wherever it is read
            read = (self.read(request.rows)[:3] for request in requests)
        else:
            own = torch.Generator()  # else the loader draws from torch's
            reading = _Reading(self, requests)
            read = DataLoader(reading, batch_size=None, num_workers=workers, generator=own)
        for inputs, labels, ids in read:
            yield Batch(inputs.to(device), labels.to(device), ids.to(device))


@dataclass(frozen=True, kw_only=True)
class JoinedExamples(Examples):
    """Examples under other targets, and H more of the same kind after them."""

    more: Examples
    targets: Tensor
    """[N + H] or [N + H, C], on the CPU"""

    @classmethod
    def join(cls, first: Examples, more: Examples, targets: Tensor) -> "JoinedExamples":
        """N examples and H more, under the targets of all."""
        return cls(**vars(first), more=more, targets=targets)

    def __len__(self) -> int:
        return super().__len__() + len(self.more)

    def read(self, rows: Tensor) -> Batch:
        """The examples with these indices; those of ``more`` come last."""
        count = super().__len__()
        of_first = rows < count
        parts = [super().read(rows[of_first])] if bool(of_first.any()) else []
        if not bool(of_first.all()):
            parts.append(self.more.read(rows[~of_first] - count))
        device = parts[0].inputs.device
        inputs = torch.cat([part.inputs.to(device) for part in parts])
        places = torch.cat([rows[of_first], rows[~of_first]])
        return Batch(inputs, self.targets[places].to(device), places)


@dataclass(frozen=True)
class _Reading(Dataset[tuple[Tensor, ...]]):
    """Whole batches as a data set, for a loader's worker processes."""

    examples: Examples
    requests: list[BatchRequest]

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, place: int) -> tuple[Tensor, ...]:
        with seeded_generators() as start:
            start(self.requests[place].seed)
            return tuple(self.examples.read(self.requests[place].rows)[:3])


def _rows_of(part: Tensor, rows: Tensor) -> Tensor:
    if (signed := SIGNED.get(part.dtype)) is not None:
        return _rows_of(part.view(signed), rows).view(part.dtype)
    return part[rows.to(part.device)]


def _source(name: str, data: Any) -> tuple[Tensor, Tensor] | Indexed:
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, NOT_INDEXED) or not isinstance(data, Indexed):
        raise UsageError(
            f"{name} is {kind(data)}; allowed: {PAIR}, by index and with a length."
        )
    if not isinstance(data, tuple | list):
        return data
    if any(hasattr(part, "shape") for part in data):
        return _pair(name, data)
    if len(data) == 2 and isinstance(data[0], list):
        raise UsageError(f"{name} is a pair of lists; allowed: {PAIR}.")
    return list(data)


def _pair(name: str, data: Sequence[Any]) -> tuple[Tensor, Tensor]:
    if len(data) != 2 or not hasattr(data[0], "shape"):
        raise UsageError(f"{name} has {len(data)} tensors or arrays; allowed: {PAIR}.")
    inputs, labels = (_tensor(name, part) for part in data)
    if not inputs.ndim or labels.shape[:1] != inputs.shape[:1]:
        raise UsageError(
            f"{name} has inputs of shape {tuple(inputs.shape)} and labels of shape "
            f"{tuple(labels.shape)}; allowed: one label for each row of inputs."
        )
    return inputs, labels


def _tensor(name: str, part: Any) -> Tensor:
    try:
        return part if isinstance(part, Tensor) else torch.as_tensor(native(part))
    except (TypeError, ValueError) as error:
        found = np.asarray(part)
        raise UsageError(
            f"{name} has an array of {found.dtype} of shape {found.shape}; allowed: numbers. "
            "Names of classes: tutelage.sklearn.TaughtClassifier takes them."
        ) from error


def native(part: Any) -> np.ndarray:
    """An array in this machine's byte order, which is all that torch takes."""
    found = np.asarray(part)
    return found.astype(found.dtype.newbyteorder("="), copy=False)

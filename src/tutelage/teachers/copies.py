"""Augmented copies of every example."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tutelage.randomness import mixed_seed
from tutelage.teacher import Teacher
from tutelage.types import Batch, PreparedBatch

_ONLINE, _OFFLINE = 1, 2
"""first part of a seed: keeps the random numbers of the two kinds of copies apart"""


@runtime_checkable
class Augment(Protocol):
    """An augmentation such as the functions of ``tutelage.augment``."""

    def __call__(self, inputs: Tensor, /, *, seed: int) -> Tensor:
        """Augment every row on its own."""
        ...


class Copies(Teacher):
    """Prepares ``k`` rows of every example, the first of which may be the original.

    Rows come copy by copy: all examples as they are, then a first copy of each, and so on.
    Labels stay. A weigher beside it says how the rows of an example count:
    ``CombinedTeacher(Copies(...), WorstCase(...))``.

    Source: Yi et al. 2021, Reweighting Augmented Samples by Minimizing the Maximal Expected
    Loss, section 4. Copies are drawn anew whenever an example comes up, as the number of epochs
    in the paper's comparisons has it; its algorithm 1 draws them once, before training, which
    is ``offline``.

    Note: ``offline`` keeps the k - 1 or k copies of every example that has come up in memory,
    in the type of the inputs. They depend on ``seed`` and the example's id alone.

    Args:
        k: Rows of an example, the size of B(x).
        augment: Makes copies of inputs, such as ``tutelage.augment.crop_and_flip``.
        include_original: Whether the first row of an example is x itself.
        offline: Whether an example has the same copies every time.
        seed: Of the copies that stay.

    Raises:
        ValueError: If k is below 1.
    """

    def __init__(
        self,
        k: int,
        augment: Augment,
        *,
        include_original: bool,
        offline: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}.")
        self.k = k
        self.augment = augment
        self.include_original = include_original
        self.offline = offline
        self.seed = seed
        self._kept: dict[int, Tensor] = {}

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Copy and augment."""
        fresh = self._stored_copies(batch) if self.offline else self._drawn(batch)
        inputs = torch.cat([batch.inputs, fresh]) if self.include_original else fresh
        return repeated(batch, self.k)._replace(inputs=inputs)

    @property
    def _made(self) -> int:
        return self.k - self.include_original

    def _drawn(self, batch: Batch) -> Tensor:
        if not self._made:
            return batch.inputs[:0]
        seed = mixed_seed(_ONLINE, batch.seed)
        return self.augment(torch.cat([batch.inputs] * self._made), seed=seed)

    def _stored_copies(self, batch: Batch) -> Tensor:
        if not self._made:
            return batch.inputs[:0]
        rows = zip(batch.ids.tolist(), batch.inputs, strict=True)
        kept = [self._of(example, x) for example, x in rows]
        return torch.stack(kept, 1).flatten(0, 1).to(batch.inputs.device)

    def _of(self, example: int, x: Tensor) -> Tensor:
        if example not in self._kept:
            same = x.expand(self._made, *x.shape).contiguous()
            seed = mixed_seed(_OFFLINE, self.seed, example)
            self._kept[example] = self.augment(same, seed=seed).cpu()
        return self._kept[example]


def repeated(batch: Batch, k: int) -> PreparedBatch:
    """A prepared batch that repeats every example k times, copy by copy."""
    rows = torch.arange(len(batch.ids), device=batch.ids.device).repeat(k)
    targets, ids = batch.targets[rows], batch.ids[rows]
    return PreparedBatch(batch.inputs, targets, ids, rows, autocast=batch.autocast)

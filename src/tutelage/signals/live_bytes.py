"""Bytes of tensors that are alive at the same time, on any device."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that operators inside it make, as long as they are alive.

    Note: memory that an operator needs while it runs is not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        """the largest number of bytes so far"""
        self._total = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call an operator and count what it returns."""
        found = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return found

    def _count(self, storage: torch.UntypedStorage) -> None:
        place = storage.data_ptr()
        known = self._alive.get(place)
        if not place or (known is not None and not known[0].expired()):
            return
        self._total += storage.nbytes() - (0 if known is None else known[1])
        self._alive[place] = StorageWeakRef(storage), storage.nbytes()
        if self._total > self.peak:  # by what is alive still
            for key in [key for key, (storage, _) in self._alive.items() if storage.expired()]:
                self._total -= self._alive.pop(key)[1]
            self.peak = max(self.peak, self._total)

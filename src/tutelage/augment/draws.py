"""Counter-based random numbers for each example, independent of the rest of the batch."""

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt64
from torch import Tensor

from tutelage.errors import UsageError

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(30), 0xBF58476D1CE4E5B9), (np.uint64(27), 0x94D049BB133111EB)


class ExampleRandom:
    """Random numbers that depend on a seed, an example's id and a stream only.

    However examples are split into batches or among worker processes, and in whatever order
    they come, the same seed gives an example the same numbers; another seed, as of another
    epoch, gives unrelated ones. Drawn on the CPU.

    Source: Steele, Lea and Flood 2014, Fast Splittable Pseudorandom Number Generators
    (SplitMix64's finaliser, over a counter).

    Args:
        seed: Any whole number of 64 bits.
        ids: [B] whole numbers; equal ids get equal numbers. None: the places in the batch.
        count: B.

    Raises:
        UsageError: If there is not one id for each example.
    """

    def __init__(self, seed: int, ids: Tensor | None, count: int) -> None:
        if ids is not None and ids.shape != (count,):
            raise UsageError(f"ids of shape {list(ids.shape)} came with {count} images.")
        own = np.arange(count) if ids is None else ids.detach().cpu().numpy()
        start = splitmix64(np.array([seed & 0xFFFFFFFFFFFFFFFF], np.uint64))
        self._state = splitmix64(start + (own.astype(np.int64).view(np.uint64) + 1) * GOLDEN)

    def uniform(self, stream: int, width: int) -> Float64[np.ndarray, "B n"]:
        """Numbers in [0, 1)."""
        columns = np.arange(1, width + 1, dtype=np.uint64) * GOLDEN
        state = splitmix64(self._state + np.array([stream + 1], np.uint64) * GOLDEN)
        return (splitmix64(state[:, None] + columns) >> np.uint64(11)) * 2.0**-53

    def whole(self, stream: int, width: int, below: int) -> Int64[np.ndarray, "B n"]:
        """Uniform integers in ``0..below - 1``."""
        return (self.uniform(stream, width) * below).astype(np.int64)

    def distinct(self, stream: int, width: int, below: int) -> Int64[np.ndarray, "B n"]:
        """Distinct integers in random order."""
        return self.uniform(stream, below).argsort(axis=1)[:, :width]


def splitmix64(state: UInt64[np.ndarray, "*shape"]) -> UInt64[np.ndarray, "*shape"]:
    """The finaliser of SplitMix64, a bijection on 64-bit integers."""
    for shift, factor in _MIX:
        state = (state ^ (state >> shift)) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def random_seed() -> int:
    """A seed drawn from torch's default generator."""
    return int(torch.randint(2**63 - 1, ()))

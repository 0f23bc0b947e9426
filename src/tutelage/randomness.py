"""Seeds of a step, so that recomputed steps draw the same numbers."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

_CPU = torch.device("cpu")


def mixed_seed(*parts: int) -> int:
    """A seed from several integers, dependent on their order and number.

    Unlike a sum or a product, neighbouring parts give unrelated seeds, so the seed of
    epoch 1 of run 2 has nothing to do with that of epoch 2 of run 1.
    """
    # The length and the fixed two words a part keep (1,), (1, 0) and (2**32,) apart:
    # SeedSequence pads with zeros and splits large numbers into words.
    words = [len(parts)]
    for part in parts:
        low, high = part & 0xFFFFFFFF, (part >> 32) & 0xFFFFFFFF
        words += [low, high]
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
    return int(state) >> 1


@contextmanager
def seeded(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Seed torch inside and restore its random state afterwards."""
    generators = [torch.default_generator]
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def seeded_generators() -> Iterator[Callable[[int], None]]:
    """Seed Python, NumPy and torch inside, any number of times, and restore them."""
    python, numpy, own = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - other people's code draws from it
    try:
        yield _start_all
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002 - as it was
        torch.set_rng_state(own)


def _start_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - other people's code draws from it
    torch.default_generator.manual_seed(seed)

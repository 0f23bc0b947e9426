"""Examples of one part that are in another, too, found by their inputs."""

import hashlib
from collections.abc import Iterator

import torch

from tutelage.fitting.examples import Examples

_AT_ONCE = 1024
"""examples that are read at a time"""


def copies(part: Examples, training: Examples) -> int:
    """How many examples of a part have the inputs of a training example.

    0 unless both are tensors: a data set may give other inputs whenever it is read.
    """
    if not (part.in_memory and training.in_memory):
        return 0
    known = set(_contents(part))
    shared = known.intersection(_contents(training))
    return sum(content in shared for content in _contents(part)) if shared else 0


def _contents(examples: Examples) -> Iterator[bytes]:
    count = len(examples.source[1]) if isinstance(examples.source, tuple) else 0
    for rows in torch.arange(count).split(_AT_ONCE):
        inputs = Examples.read(examples, rows).inputs.cpu().contiguous()
        if inputs.is_floating_point():
            inputs = inputs + 0  # -0 becomes 0
        for row in inputs.reshape(len(rows), -1).view(torch.uint8).numpy():
            yield hashlib.blake2b(row.tobytes(), digest_size=16).digest()

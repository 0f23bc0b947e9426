"""Baseline: a learned teacher applied to permuted examples."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from tutelage.losses.objectives import Normalise
from tutelage.teacher import (
    Teacher,
    acts_at_test,
    implements,
    normalise_of,
    taps_of,
    uses_progress,
    weights_attached,
)
from tutelage.types import Batch, Observation, PreparedBatch, as_prepared


class PermutationControl(Teacher):
    """Masks or weights of another teacher, permuted within each batch.

    What they are like on the whole stays; which example they belong to is lost.

    Source: Raghu et al. 2021, Teaching with Commentaries, appendix D (permuted learned mask).

    Note: the paper pairs masks and images once over the whole set. Here the pairs are drawn
    anew for each batch, which for a batch drawn at random gives each image a random one of the
    set's masks, another one each time.

    Args:
        learned: A teacher with ``weigh``, or with ``mask`` as ``AttentionMask`` has it.

    Raises:
        TypeError: If it has neither.
    """

    def __init__(self, learned: nn.Module) -> None:
        super().__init__()
        if not hasattr(learned, "mask") and not implements(learned, "weigh"):
            raise TypeError(f"{type(learned).__name__} has no method 'mask' or 'weigh'.")
        self.learned = learned
        self.normalise: Normalise = normalise_of(learned)
        self.taps = taps_of(learned)
        self.attached = weights_attached(learned)
        self.at_test = acts_at_test(learned)
        self.uses_progress = uses_progress(learned)

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Prepare each image by another image's mask."""
        if not hasattr(self.learned, "mask"):
            return as_prepared(batch)
        mask = cast(Callable[..., Tensor], self.learned.mask)(batch.inputs)
        return as_prepared(batch)._replace(inputs=batch.inputs * _permuted(mask))

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Permuted weights [L]."""
        if not implements(self.learned, "weigh"):
            return torch.ones_like(observation.losses)
        # on the buffers that are set by now
        own = cast(Callable[..., Tensor], self.learned.weigh)
        return _permuted(own(prepared, observation))


def _permuted(rows: Tensor) -> Tensor:
    return rows[torch.randperm(len(rows), device="cpu").to(rows.device)]

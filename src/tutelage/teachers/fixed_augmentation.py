"""Augmentation by a fixed policy."""

from collections.abc import Sequence

from tutelage.augment import Policy
from tutelage.augment.actions import performed_on, require_statistics
from tutelage.augment.draws import ExampleRandom
from tutelage.teacher import Teacher
from tutelage.types import Batch, PreparedBatch, as_prepared


class FixedAugmentation(Teacher):
    """Augments every image by a fixed policy: the baseline of ``LearnedAugmentation``.

    What an image gets depends on the step's seed and on its id alone.

    Args:
        policy: One of ``tutelage.augment``, such as ``RandAugment()``.
        mean: Of every channel, in 0..1, if batches are normalised; nothing if they hold images
            in 0..1.
        std: Of every channel, as ``mean``.

    Note: raises ``ValueError`` if ``mean`` and ``std`` do not fit; inputs that are not images
    in 0..1 once they are undone are a ``UsageError``.
    """

    def __init__(
        self, policy: Policy, *, mean: Sequence[float] = (), std: Sequence[float] = ()
    ) -> None:
        super().__init__()
        self.policy = policy
        self.mean, self.std = require_statistics(mean, std)

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Augment a batch."""
        actions = self.policy.draw(ExampleRandom(batch.seed, batch.ids, len(batch.ids)))
        changed = performed_on(batch.inputs, self.policy.space, actions, self.mean, self.std)
        return as_prepared(batch)._replace(inputs=changed)

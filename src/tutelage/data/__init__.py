"""Batches with example ids, for a training loop of your own."""

from tutelage.data.loaders import Indexed, RandomBatches, WithIds, as_batch, without_ids

__all__ = ["Indexed", "RandomBatches", "WithIds", "as_batch", "without_ids"]

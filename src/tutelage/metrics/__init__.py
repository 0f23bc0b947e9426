"""Scores of whole outputs, as the fields report them."""

from tutelage.metrics.bleu import bleu

__all__ = ["bleu"]

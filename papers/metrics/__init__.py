"""Scores of whole outputs, as the fields report them."""

from papers.metrics.bleu import bleu

__all__ = ["bleu"]

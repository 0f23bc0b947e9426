"""Texts: sentence pairs, their tokens and their minibatches."""

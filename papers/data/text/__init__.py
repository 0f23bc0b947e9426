"""Sentence pairs for translation, and minibatches of tokenised texts."""

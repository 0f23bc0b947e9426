"""Few-shot tasks: a few labelled examples of a few classes, and more of these to be named."""

__all__ = []

"""Data sets made from others by seed, in which it is known what each image holds and why."""

__all__ = []

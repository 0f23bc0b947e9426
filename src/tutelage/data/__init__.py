"""Data sets of labelled images: where they come from, their noise, splits and batches."""

__all__ = []

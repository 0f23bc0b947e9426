"""Data sets in the folders that their authors publish, which nobody else may hand on."""

__all__ = []

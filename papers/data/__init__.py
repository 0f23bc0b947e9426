"""Data sets that only the papers' recipes read."""

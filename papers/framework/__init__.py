"""Reproducing the papers: recipes as records, their jobs, verdicts, results and pages."""

__all__ = []

"""Baseline: no teaching."""

from tutelage.teacher import Teacher


class Plain(Teacher):
    """Leaves batches unchanged, with equal weights."""

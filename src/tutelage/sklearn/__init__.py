"""A classifier for scikit-learn that learns under a teacher; needs the extra ``sklearn``."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutelage.sklearn.classifier import TaughtClassifier

__all__ = ["TaughtClassifier"]


def __getattr__(name: str) -> object:  # so that scikit-learn is imported where it is used
    if name in __all__:
        return getattr(import_module("tutelage.sklearn.classifier"), name)
    raise AttributeError(f"module 'tutelage.sklearn' has no attribute '{name}'")

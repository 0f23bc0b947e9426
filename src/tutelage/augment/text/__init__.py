"""Copies of texts whose words a masked language model has replaced."""

from tutelage.augment.text.kept import kept
from tutelage.augment.text.language_model import LanguageModel
from tutelage.augment.text.substitution import Substitution

__all__ = ["LanguageModel", "Substitution", "kept"]

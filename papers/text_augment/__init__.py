"""Copies of texts whose words a masked language model has replaced."""

from papers.text_augment.kept import kept
from papers.text_augment.language_model import LanguageModel
from papers.text_augment.substitution import Substitution

__all__ = ["LanguageModel", "Substitution", "kept"]

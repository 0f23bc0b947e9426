"""Commentaries: which teachers can be stored, as what, and the folder that one is."""

from tutelage.commentaries.caution import caution
from tutelage.commentaries.commentary import (
    Provenance,
    load_commentary,
    read_card,
    save_commentary,
)

__all__ = ["Provenance", "caution", "load_commentary", "read_card", "save_commentary"]

"""Commentaries: learned teachers stored as folders."""

from tutelage.commentaries.caution import caution
from tutelage.commentaries.commentary import (
    Provenance,
    load_commentary,
    read_card,
    save_commentary,
)
from tutelage.commentaries.policy_file import write_policy

__all__ = [
    "Provenance",
    "caution",
    "load_commentary",
    "read_card",
    "save_commentary",
    "write_policy",
]

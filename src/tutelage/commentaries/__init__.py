"""Commentaries: learned teachers stored as folders."""

from tutelage.commentaries.commentary import (
    Provenance,
    load_commentary,
    read_card,
    save_commentary,
)
from tutelage.commentaries.policy_file import write_policy

__all__ = [
    "Provenance",
    "load_commentary",
    "read_card",
    "save_commentary",
    "write_policy",
]

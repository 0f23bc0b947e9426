"""Commentaries: learned teachers stored as folders."""

from tutelage.commentaries.commentary import (
    Provenance,
    amend_card,
    load_commentary,
    save_commentary,
)
from tutelage.commentaries.folders import read_card
from tutelage.commentaries.hub import pull_commentary, push_commentary
from tutelage.commentaries.policy_file import write_policy

__all__ = [
    "Provenance",
    "amend_card",
    "load_commentary",
    "pull_commentary",
    "push_commentary",
    "read_card",
    "save_commentary",
    "write_policy",
]

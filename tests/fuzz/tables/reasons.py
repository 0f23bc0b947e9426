"""Refusals of files that are right, and files that have to be refused."""

from tests.fuzz.outcomes import Reason

MUST = (
    "form=label twice;",
    "form=path twice;",
    "labels=one class;",
    "labels=fractions;",
    "labels=huge;",
    "form=a row too short;",
    "form=no rows;",
    "form=empty file;",
    "form=UTF-16;",
)
"""parts of the specs of what has to be refused"""

REASONS = (
    Reason("has no label", "missing=one|missing=test|missing=blanks|labels=nan the word"),
    Reason("which is no class", "labels=words, test of others|test with a word"),
    Reason("which train lacks", "labels=words, test of others|test with a word"),
    Reason("no class folders", "labels=hidden name"),
)

"""Refusals of files that are right, and files that have to be refused."""

from tests.fuzz.outcomes import Reason

MUST = (
    "form=label twice;",
    "form=path twice;",
    "labels=one class;",
    "labels=huge;",
    "form=a row too short;",
    "form=no rows;",
    "form=empty file;",
    "form=UTF-16;",
    "keys=twice;",
    "keys=lacking;",
    "keys=extra;",
)
"""parts of the specs of what has to be refused"""

REASONS = (
    Reason("no label", "missing=one|missing=test|missing=blanks|labels=nan the word"),
    Reason("no class", "test of others|test with a word"),
    Reason("which train lacks", "test of others|test with a word"),
    Reason("no class folders", "labels=hidden name"),
    Reason("class folders without images", "endings="),
    Reason("label", "labels=negative|labels=a byte's mark|labels=fractions"),
    Reason("label", "form=label twice in another case|shards=words in the last"),
    Reason("", "form=semicolons|form=tabs"),
)

"""Flags that are given several times: of one that takes several values, all values count."""

from typing import Any

import pytest

from tutelage_cli.cli import parse


def settings_of(words: str) -> Any:
    args: Any = parse(words.split())
    return args.command if words.startswith("commentary") else args.settings


@pytest.mark.parametrize(
    ("words", "name", "values"),
    [
        (
            "train x --controls pruned --controls fine-tuned cross-fitted",
            "controls",
            ("pruned", "fine-tuned", "cross-fitted"),
        ),
        ("train --controls none --controls none", "controls", ("none",)),
        ("train --teacher=loss --seeds 2 --teacher focal", "teacher", ("loss", "focal")),
        ("train --ignore-labels -1 -2 --ignore_labels=?", "ignore_labels", ("-1", "-2", "?")),
        ("train --text-column a --jobs 1 --text-column=b", "text_column", ("a", "b")),
        ("commentary show f --ignore-labels a --ignore-labels b", "ignore_labels", ("a", "b")),
        ("commentary card f --seeds 1 --seeds 2 3", "seeds", (1, 2, 3)),
    ],
)
def test_all_values_count(words, name, values):
    assert getattr(settings_of(words), name) == values


def test_of_a_flag_that_takes_one_value_the_last_counts():
    assert settings_of("train --seeds 2 --seeds 4").seeds == 4


def test_of_a_flag_that_is_given_once_nothing_moves():
    settings = settings_of("train x --controls pruned fine-tuned --seeds 2")
    assert settings.controls == ("pruned", "fine-tuned")

"""The help of ``tutelage train``: groups of flags, those that matter most first."""

import dataclasses
import re

from tests.trained import run
from tutelage_cli.config.flags import flag
from tutelage_cli.train.args import FIRST_FLAGS, FLAG_GROUPS, Train, train_flags, train_of
from tutelage_cli.train.settings import TrainSettings


def test_every_setting_is_in_one_group() -> None:
    names = [*FIRST_FLAGS, *(name for group in FLAG_GROUPS.values() for name in group)]
    own = [field.name for cls in (Train, TrainSettings) for field in dataclasses.fields(cls)]
    own.remove("settings")
    assert sorted(names) == sorted(own)


def test_ten_flags_come_first_and_the_others_under_the_heading_of_their_group() -> None:
    lines = run("train", "--help").out.splitlines()
    heading_or_flag = re.compile(
        r"[\W_]*?((?:[a-z]+ )?(?:arguments|options)\b|--[a-z][a-z-]*)(?=\W)"
    )
    found = [heading_or_flag.match(line) for line in lines if not line.startswith("  tutelage")]
    words = [match[1] for match in found if match is not None]
    first = [flag(name) for name in FIRST_FLAGS if name != "data"]
    assert len(first) == 10
    assert words[: len(first) + 2] == ["positional arguments", "options", *first]
    for group, names in FLAG_GROUPS.items():
        place = words.index(f"{group} options") + 1
        expected = [flag(name) for name in names if name != "output"]
        assert words[place : place + len(expected)] == expected


def test_grouped_flags_make_the_settings_that_they_started_from() -> None:
    settings = TrainSettings("x.csv", held_out=7, decay_at=(0.5,), freeze=True, student="y")
    assert train_of(train_flags(settings)()) == Train(settings)

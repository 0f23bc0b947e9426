"""What is wrong with a setting is told where the data, run or commentary is not there, too."""

import dataclasses
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.trained import one_line, run, unchecked
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.train.settings import TrainSettings

COMMANDS: dict[str, type] = {"train": TrainSettings, "commentary learn": LearnSettings}
GONE = ("no-such-set", "cifar10", "gone.npz", "gone.csv", "photos/gone")
OF_THE_DATA = {
    *("data", "image_column", "label_column", "text_column", "feature_column", "ignore_labels"),
    *("labels_from", "weights_from", "held_out_from", "test_from", "commentary"),
    *("freeze", "tap", "student_weights"),
}
"""settings of which no value is wrong whatever the data are"""
WORDS: dict[str, tuple[str, ...]] = {
    "teacher": ("nobody",),
    "controls": ("nothing", "none pruned"),
    "student": ("cnm", "gone.py:net", "gone.py:"),
    "noise": ("much", "uniform:2", "flip:nan", "uniform:", "human:you"),
    "device": ("gpu", "cpu:x"),
    "choose_lr": ("0.1", "0.1 0.1", "0 1", "nan 1"),
    "decay_at": ("0", "2", "nan"),
    "unroll_steps": ("0", "9"),
    "teacher_every": ("0", "1.5"),
    "held_out": ("0", "1.5"),
    "sigma": ("-1", "nan"),
    "seed": ("word", "1.5"),
}
"""wrong values of settings that are no single number"""


def wrong_values(field: dataclasses.Field, kind: Any) -> Iterator[str]:
    """Values that no data can make right."""
    if field.name in WORDS:
        yield from WORDS[field.name]
        return
    several = typing.get_origin(kind) in (types.UnionType, typing.Union)
    kinds = typing.get_args(kind) if several else (kind,)
    for one in kinds:
        if typing.get_origin(one) is Literal:
            yield "odd"
        elif one in (int, float):
            yield from ("-1", "word", *(("inf", "nan") if one is float else ("1.5",)))


def cases() -> Iterator[tuple[str, str, str]]:
    """Every setting of both commands, with every wrong value."""
    for command, settings in COMMANDS.items():
        kinds = typing.get_type_hints(settings)
        for field in dataclasses.fields(settings):
            values = list(wrong_values(field, kinds[field.name]))
            assert bool(values) != (field.name in OF_THE_DATA), field.name
            for value in values:
                yield command, field.name, value


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUTELAGE_DATA", raising=False)
    with unchecked():
        yield


@pytest.mark.parametrize(("command", "name", "value"), [*cases()])
def test_a_wrong_value_is_told_whatever_is_missing(command, name, value):
    flag = f"--{name.replace('_', '-')}"
    for gone in GONE[:1] if command == "train" and name != "student" else GONE:
        answer = run(*command.split(), gone, flag, *value.split())
        assert answer.code == 2, answer
        told = answer.err
        assert name in told or flag in told or value.split()[0] in told, answer


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("inspect gone --max-fpr 2", ["--max-fpr", "between 0 and 1"]),
        ("inspect gone --top -1", ["top", "at least 1"]),
        ("commentary show gone --image-size 0", ["--image-size", "at least 1"]),
        ("commentary export gone --size 0 4", ["size"]),
        ("train gone --out x --log-every 0 --log tensorboard", ["--log-every", "at least 1"]),
        ("train gone --teacher margin-loss --unroll-steps 9", ["--unroll-steps is 9"]),
        (
            "train gone --teacher internal-state --teacher-every 1",
            ["is by default 2", "every 1 student"],
        ),
        (
            "train gone --layers last --teacher margin-loss curriculum --teacher-every 1",
            ["is by default 2", "curriculum"],
        ),
        ("train gone --layers last --unroll-steps 3", ["--layers last", "--unroll-steps out"]),
        ("train gone --layers last --teacher curriculum", ["--layers does nothing"]),
    ],
)
def test_so_are_the_settings_of_other_commands(words, parts):
    one_line(run(*words.split()), *parts)

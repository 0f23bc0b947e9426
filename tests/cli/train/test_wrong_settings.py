"""What is wrong with a setting is told where the data, run or commentary is not there, too."""

import dataclasses
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from tests.trained import one_line, run, unchecked
from tutelage.errors import UsageError
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.train import material
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


@pytest.mark.parametrize(
    ("data", "words", "parts"),
    [
        ("images", "--teacher-every 1", ["is by default 2", "or --unroll-steps 1"]),
        ("texts.csv", "--teacher-every 1", ["--teacher-every 2 or more"]),
        ("rows.npz", "--teacher-every 1 --layers all", ["--unroll-steps is by default 2"]),
        (
            "images",
            "--teacher learned-augmentation --teacher-every 1",
            ["--teacher-every is 1", "learned-augmentation", "2 or more"],
        ),
        ("images", "--momentum 1e-6", ["--momentum is 1e-06", "--unroll-steps 2"]),
        ("mnist5k", "--momentum 1e-200", ["--momentum is 1e-200", "--unroll-steps 2"]),
        ("images", "--momentum 1e-323", ["--momentum is 9.88131e-324"]),
        (
            "images",
            "--momentum 0.1 --unroll-steps 4",
            ["--momentum is 0.1", "--unroll-steps 4"],
        ),
        ("texts.csv", "--teacher curriculum", ["curriculum takes images", "texts"]),
        ("rows.npz", "--teacher rand-augment", ["augmentation takes images", "features"]),
        (
            "images",
            "--freeze --student efficientnet-lite0 --teacher curriculum",
            ["curriculum takes images", "features"],
        ),
        (
            "images",
            "--student resnet8 --teacher internal-state --tap gone",
            ["'gone'", "resnet8", "--tap"],
        ),
        ("rows.npz", "--teacher internal-state --tap gone", ["'gone'", "mlp", "--tap"]),
        ("images", "--student cnn --image-size 8", ["8x8", "13x13"]),
        ("texts.csv", "--noise human:worst", ["--noise human:worst", "texts"]),
        ("images", "--weights-from gone.csv", ["--weights-from", "gone.csv", "no table"]),
        ("texts.csv", "--labels-from gone.csv --label-column x", ["--labels-from", "no table"]),
        ("images", "--test-from ./gone", ["'./gone' is not a source", "existing folder"]),
        ("images", "--held-out-from gone.csv", ["'gone.csv' is not a", "no such file"]),
        ("images", "--test-from a/GONE.Parquet", ["'a/GONE.Parquet'", "no such file"]),
        ("images", "--test-from checked.zip", ["'checked.zip'", "no such file"]),
        ("mnist5k", "--held-out-from ./texts.cvs", ["Did you mean 'texts.csv'"]),
        ("rows.npz", "--held-out-from texts.csv", ["texts.csv holds no feature", "rows.npz"]),
        ("texts.csv", "--test-from ./gone.csv", ["no file ./gone.csv", "texts", ".csv"]),
        ("texts.csv", "--held-out-from gone.csv", ["no file gone.csv", "texts", ".csv"]),
        ("rows.npz", "--held-out-from gone.npz", ["no file gone.npz", "vectors", ".npz"]),
        ("texts.csv", "--test-from rows.npz", ["rows.npz has no columns of texts"]),
    ],
)
def test_flags_that_do_not_go_together_are_told_before_the_data_are_read(
    data, words, parts, tmp_path, monkeypatch
):
    (tmp_path / "texts.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    np.savez(tmp_path / "rows.npz", features=np.eye(20), label=np.arange(20) % 2)

    def read(*_: object) -> None:
        pytest.fail("the data were read")

    monkeypatch.setattr(material, "read_data", read)
    name = "no-such-set" if data == "images" else data
    one_line(run("train", name, *words.split()), *parts)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        *((["train", "mnist5k", flag, ""], flag) for flag in (
            "--held-out-from", "--test-from", "--labels-from", "--weights-from", "--out",
            "--resume", "--config", "--commentary", "--student", "--student-weights",
        )),
        (["train", "mnist5k", "--out="], "--out"),
        (["train", ""], "an argument"),
        (["inspect", ""], "an argument"),
        (["inspect", "run", "--data", ""], "--data"),
        (["report", "run", ""], "an argument"),
        (["commentary", "learn", "mnist5k", "--out", ""], "--out"),
        (["commentary", "show", ""], "an argument"),
    ],
)  # fmt: skip
def test_an_empty_text_is_no_path(words, named):
    one_line(run(*words), f"{named} is empty: give a value, or leave it out.")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("rows.npz", "--teacher-every 1"),
        ("rows.npz", "--teacher-every 1 --layers last --momentum 1e-6"),
        ("texts.csv", "--teacher loss --teacher-every 1 --momentum 1e-6"),
        ("mnist5k", "--teacher loss --momentum 1e-200"),
        ("texts.csv", "--student model --momentum 1e-6"),
        ("images", "--student cnn --student-weights any.pt"),
        ("images", "--teacher-every 1 --unroll-steps 1"),
        ("mnist5k", "--image-size 8"),
        ("images", "--student own.py:wide --momentum 1e-6"),
        ("images", "--teacher internal-state --tap conv2"),
    ],
)
def test_flags_that_may_go_together_are_not_refused_before_the_data_are_read(
    data, words, tmp_path, monkeypatch
):
    (tmp_path / "texts.csv").write_text("text,label\n" + "good,a\nbad,b\n" * 20)
    (tmp_path / "own.py").write_text("def wide(**_): ...\n")
    (tmp_path / "model").mkdir()
    np.savez(tmp_path / "rows.npz", features=np.eye(20), label=np.arange(20) % 2)

    def read(*_: object) -> None:
        raise UsageError("the data were read")

    monkeypatch.setattr(material, "read_data", read)
    name = "no-such-set" if data == "images" else data
    one_line(run("train", name, *words.split()), "the data were read")

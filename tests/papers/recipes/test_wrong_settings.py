"""What is wrong with a setting is found before what is missing on disk, in every command."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from papers.catalogue import RECIPES, load_recipe
from tests.trained import one_line, run, run_papers
from tutelage.errors import UsageError
from tutelage_cli.config.settings_files import changed

UNBOUNDED = {"temperature"}
"""settings whose infinity has a meaning"""


def numbers(settings: Any) -> Iterator[tuple[str, type, dict[str, Any]]]:
    """Every number of some settings: its name, its type, and how to replace it, by value."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            for name, kind, place in numbers(value):
                yield name, kind, {field.name: place}
        elif type(value) in (int, float):
            yield field.name, type(value), {field.name: None}


def filled(place: dict[str, Any], value: float) -> dict[str, Any]:
    """The same place with a value in it."""
    return {k: value if v is None else filled(v, value) for k, v in place.items()}


@pytest.mark.parametrize("name", RECIPES)
def test_no_number_of_a_recipe_is_negative_or_infinite(name):
    settings = load_recipe(name).settings["paper"]
    for number, kind, place in numbers(settings):
        for wrong in (-1, *([float("inf")] if kind is float else [])):
            if number in UNBOUNDED and wrong > 0:
                continue
            with pytest.raises(UsageError, match=number):
                changed(settings, filled(place, wrong), "--set")


WRONG = {
    "train cifar10 --student cnm": ["'cnm'", "Did you mean 'cnn'?"],
    "train cifar10 --noise human:most": ["'human:most'", "Did you mean 'worst'?"],
    "train cifar100 --noise human:worst": ["human:worst", "cifar100"],
    "train mnist --noise hierarchical:0.2": ["hierarchical:0.2", "mnist"],
    "train cifar10 --labels-from no.csv": ["--label-column"],
    "train cifar10 --noise human:worst --labels-from no.csv": ["give only one"],
    "train cifar10 --lr inf": ["lr", "finite", "inf"],
    "commentary learn cifar10 --student cnm": ["'cnm'", "Did you mean 'cnn'?"],
    "commentary learn mnist --noise human:worst": ["human:worst", "mnist"],
    "commentary learn cifar10 --lr inf": ["lr", "finite", "inf"],
    "inspect no-such-run --top 0": ["top", "at least 1"],
    "reproduce mmel-cifar --set student=cnm --out out": ["'cnm'"],
    "reproduce mmel-glue --set source={search:best} --out out": ["'best'", "greedy"],
    "reproduce interactions-weights --set noise=none --out out": ["noise", "flip2:0.4"],
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_setting_is_told_where_the_data_are_not_there(tmp_path, monkeypatch, line):
    monkeypatch.delenv("TUTELAGE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    words = [word.replace("search:", "search: ") for word in line.split()]
    command = run_papers if words[0] == "reproduce" else run
    one_line(command(*words), *WRONG[line])
    assert list(tmp_path.iterdir()) == []

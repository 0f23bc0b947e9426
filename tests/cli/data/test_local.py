"""A known data set is read from the local copy where there is one."""

import pytest

from tests.trained import pictures
from tutelage.errors import UsageError
from tutelage_cli.data import local
from tutelage_cli.data.local import load_known


def test_the_copy_in_the_named_folder_is_read(tmp_path, monkeypatch):
    pictures(tmp_path / "mnist")
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path))
    assert load_known("mnist").train.classes == ("cat", "dog", "emu")


def test_without_a_copy_the_hub_is_asked_and_the_way_out_told(tmp_path, monkeypatch):
    asked = []

    def refuse(source: str, _: object) -> None:
        asked.append(source)
        raise UsageError("no network")

    monkeypatch.setattr(local, "load_stored", refuse)
    for folder in ("", str(tmp_path)):
        monkeypatch.setenv("TUTELAGE_DATA", folder)
        with pytest.raises(UsageError, match=r"set TUTELAGE_DATA .* subfolder cifar10"):
            load_known("cifar10")
    assert asked == ["uoft-cs/cifar10"] * 2


def test_what_the_hub_does_not_have_is_asked_of_nobody(monkeypatch):
    monkeypatch.delenv("TUTELAGE_DATA", raising=False)
    with pytest.raises(UsageError, match="pneumoniamnist is not here: set TUTELAGE_DATA"):
        load_known("pneumoniamnist")


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'cifar100'"):
        load_known("cifar-100")

"""The benchmarks have their published classes, none of which is in two parts."""

import json

import pytest

from papers.data.few_shot import benchmarks
from papers.data.few_shot.benchmarks import BENCHMARKS, few_shot
from tests.cli.data.made_up import splits
from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits

LISTS = {"train": benchmarks.TRAIN, "val": benchmarks.HELD_OUT, "test": benchmarks.TEST}


def test_cifar_fs_divides_a_hundred_classes():
    assert [len(names) for names in LISTS.values()] == [64, 16, 20]
    assert len({name for names in LISTS.values() for name in names}) == 100


def test_cifar_fs_has_the_published_lists(real_data):
    stored = json.loads((real_data / "cifar100" / "few_shot_splits.json").read_text("utf-8"))
    for part, names in LISTS.items():
        assert sorted(stored["cifar_fs"][part]) == sorted(names)


def test_cifar_fs_takes_all_images_of_its_classes(monkeypatch):
    names = tuple(sorted(name for names in LISTS.values() for name in names))
    known = splits(train=200, test=100, classes=100, channels=3)
    train, test = (
        ImageSet(part.images, part.labels, part.ids, names, "cifar100")
        for part in (known.train, known.test)
    )
    renamed = Splits(train, test)
    monkeypatch.setattr(benchmarks, "load_known", lambda _: renamed)
    parts = few_shot("cifar-fs")
    assert [len(part) for part in parts] == [192, 48, 60]
    assert parts.test.classes == benchmarks.TEST


def test_omniglot_holds_an_alphabet_out(real_data, monkeypatch):
    monkeypatch.setenv("TUTELAGE_DATA", str(real_data))
    parts = few_shot("omniglot")
    assert [len(part.classes) for part in parts] == [110, 26, 106]
    assert [len(part) for part in parts] == [2200, 520, 2120]
    assert all(name.startswith("Latin/") for name in parts.held_out.classes)
    assert parts.train.images.shape[1:] == (1, 28, 28)


def test_an_unknown_benchmark_is_refused_with_the_nearest():
    with pytest.raises(
        UsageError, match=r"Did you mean 'cifar-fs'.*Allowed: cifar-fs, omniglot"
    ):
        few_shot("cifar_fs")
    assert set(BENCHMARKS) == {"cifar-fs", "omniglot"}

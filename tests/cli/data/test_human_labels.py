"""The labels of CIFAR-10N: found, checked against the images, or refused."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labels import ANNOTATORS, human_labels

TRUE = [0, 1, 2, 0]


def images(labels: list[int]) -> ImageSet:
    n = len(labels)
    blank = torch.zeros(n, 1, 2, 2, dtype=torch.uint8)
    return ImageSet(blank, torch.tensor(labels), torch.arange(n), ("cat", "dog", "emu"), "pets")


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path))
    (tmp_path / "cifar10n").mkdir()
    said = {column: [n % 3] * 4 for n, column in enumerate(ANNOTATORS.values())}
    pq.write_table(pa.table(said | {"clean_label": TRUE}), tmp_path / "cifar10n/train.parquet")


@pytest.mark.usefixtures("copy")
def test_each_name_reads_its_own_column():
    found = {name: human_labels(images(TRUE), name).tolist() for name in ANNOTATORS}
    assert found == {name: [n % 3] * 4 for n, name in enumerate(ANNOTATORS)}


@pytest.mark.usefixtures("copy")
def test_images_that_people_did_not_label_are_refused():
    with pytest.raises(UsageError, match="pets holds others"):
        human_labels(images([0, 1, 2, 1]), "worst")
    with pytest.raises(UsageError, match="pets holds others"):
        human_labels(images([0, 1, 2]), "worst")


@pytest.mark.usefixtures("copy")
def test_an_unknown_annotator_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"'human:worse'. Did you mean 'worst'"):
        human_labels(images(TRUE), "worse")


def test_without_a_copy_it_says_where_one_goes(monkeypatch, tmp_path):
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path))
    with pytest.raises(UsageError, match=r"set TUTELAGE_DATA.*labels-from"):
        human_labels(images(TRUE * 12_500), "worst")


def test_other_images_are_refused_without_a_copy_too(monkeypatch, tmp_path):
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path))
    with pytest.raises(UsageError, match="pets holds others"):
        human_labels(images(TRUE), "worst")

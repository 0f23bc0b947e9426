"""Sources that are not all as they should be, read as was asked for."""

import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tests.cli.data.pictures import png
from tutelage.errors import UsageError
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def folders(root, classes=("cat", "dog"), count=5):
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for place in range(count):
            (root / name / f"{place}.png").write_bytes(png(10 * number + place))
    return root


def table(root, labels):
    root.mkdir()
    for row in range(len(labels)):
        (root / f"{row}.png").write_bytes(png(row))
    rows = "".join(f"{row}.png,{label}\n" for row, label in enumerate(labels))
    (root / "train.csv").write_text(f"file,label\n{rows}", encoding="utf-8")
    return root


def by_name(splits):
    """Value of the first pixel, and label, by name, over both parts."""
    return {
        name: (int(image[0, 0, 0]), part.classes[label])
        for part in (splits.train, splits.test)
        for name, image, label in zip(
            part.names(), part.images, part.labels.tolist(), strict=True
        )
    }


@pytest.mark.parametrize("kind", ["folders", "csv", "parquet"])
def test_broken_images_are_left_out_and_listed_and_the_others_keep_their_ids(
    tmp_path, caplog, kind
):
    root = tmp_path / "set [v1]"
    if kind == "folders":
        broken = folders(root) / "dog" / "2.png"
    elif kind == "csv":
        broken = table(root, ["cat"] * 5 + ["dog"] * 5) / "7.png"
    else:
        root.mkdir()
        broken = root / "train.parquet"
        stored = [{"bytes": png(n)[: 20 if n == 7 else None], "path": None} for n in range(10)]
        labels = ["cat"] * 5 + ["dog"] * 5
        pq.write_table(pa.table({"image": stored, "label": labels}), broken)
    if kind != "parquet":
        broken.write_bytes(broken.read_bytes()[:20])
    with pytest.raises(
        UsageError, match=r"\b[79]\b.* cannot be read .*--broken-images skip"
    ) as raised:
        load(str(root))
    assert str(broken) in str(raised.value)
    for _ in range(2):  # read, and read back from the cache
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            splits = load(str(root), reading=Reading(broken_images="skip"))
        [note] = splits.notes
        assert note.startswith("1 image that cannot be read is left out")
        assert str(broken) in note
        assert [record.getMessage() for record in caplog.records] == [note]
        ids = torch.cat([splits.train.ids, splits.test.ids])
        assert sorted(ids.tolist()) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
        assert len(by_name(splits)) == 9


def test_many_broken_images_are_counted(tmp_path):
    root = folders(tmp_path / "set", count=30)
    for file in sorted((root / "dog").iterdir())[:25]:
        file.write_bytes(b"")
    note, copies = load(str(root), reading=Reading(broken_images="skip")).notes
    assert note.startswith("25 images that cannot be read are left out")
    assert note.endswith("and 5 more.")
    assert copies.startswith("1 of the 7 test examples of set")  # both classes are drawn alike


def test_all_images_broken_is_refused(tmp_path):
    root = folders(tmp_path / "set", count=2)
    for file in root.rglob("*.png"):
        file.write_bytes(b"")
    with pytest.raises(UsageError, match="holds no images"):
        load(str(root), reading=Reading(broken_images="skip"))


def test_empty_class_folders_are_kept_as_classes_that_no_example_has(tmp_path):
    root = folders(tmp_path / "set", ("ant", "cow"))
    (root / "bee").mkdir()
    (root / "bee" / "notes.txt").write_text("none yet")
    splits = load(str(root), reading=Reading(empty_classes="keep"))
    assert splits.train.classes == ("ant", "bee", "cow")
    assert splits.train.labels.unique().tolist() == [0, 2]
    assert splits.notes == (
        f"1 entry is left out of {root} (1 .txt): bee/notes.txt.",
        "No training example is of class bee: such classes keep their numbers among the 3 "
        "there are.",
    )


def test_gaps_in_the_numbers_of_classes_are_told(tmp_path):
    splits = load(str(table(tmp_path / "set", [0, 1, 3, 7, 3] * 4)))
    assert splits.train.classes == tuple("01234567")
    assert splits.notes[0].startswith("No training example is of class 2, 4, 5, 6:")


def test_classes_that_differ_in_case_or_blanks_alone_are_told(tmp_path):
    words = ["spam", "ham", "null", "None", "NA", "spam ", "Spam"]
    splits = load(str(table(tmp_path / "set", words * 2)))
    assert splits.train.classes == ("NA", "None", "Spam", "ham", "null", "spam", "spam ")
    assert splits.notes == (
        "'Spam', 'spam', 'spam ' differ in case or blanks alone, and are classes apart.",
    )


def test_rows_without_a_label_are_left_out_on_request(tmp_path):
    root = table(tmp_path / "set", [0, "", "NaN", 1, 2, 0, 1, 2])
    with pytest.raises(UsageError, match=r"no label in rows 3, 4 .*--missing-labels skip"):
        load(str(root))
    splits = load(str(root), reading=Reading(missing_labels="skip"))
    assert "no label in rows 3, 4 (the header is row 1): left out" in splits.notes[0]
    labels = {"0.png": "0", "3.png": "1", "4.png": "2", "5.png": "0", "6.png": "1"}
    assert by_name(splits) == {
        name: (int(name[0]), label) for name, label in (labels | {"7.png": "2"}).items()
    }


def test_labels_declared_as_marks_leave_their_rows_out(tmp_path):
    root = table(tmp_path / "set", [0, 255, -1, 1, -100, 0, 1])
    with pytest.raises(UsageError, match=r"row 3 .* has label 255; allowed: 0..1. Declare"):
        load(str(root))
    with pytest.raises(UsageError, match=r"row 4 .* has label -1; allowed: 0..1"):
        load(str(root), reading=Reading(ignore_labels=("255",)))
    splits = load(str(root), reading=Reading(ignore_labels=("255", "-1", "-100")))
    assert sorted(by_name(splits)) == ["0.png", "3.png", "5.png", "6.png"]
    assert splits.train.classes == ("0", "1")


def test_bytes_of_255_and_words_may_be_marks(tmp_path):
    (tmp_path / "set").mkdir()
    stored = [png(n) for n in range(5)]
    labels = pa.array([0, 255, 1, 0, 1], pa.uint8())
    pq.write_table(pa.table({"image": stored, "label": labels}), tmp_path / "set" / "a.parquet")
    splits = load(str(tmp_path / "set"), reading=Reading(ignore_labels=("255",)))
    assert sorted(by_name(splits)) == ["row 2", "row 4", "row 5", "row 6"]
    words = load(
        str(table(tmp_path / "words", ["a", "?", "b", "a", "b"])),
        reading=Reading(ignore_labels=("?",)),
    )
    assert words.train.classes == ("a", "b")


def test_images_of_any_size_become_squares_about_their_centre_turned_upright(tmp_path):
    root = folders(tmp_path / "set")
    wide = Image.new("L", (12, 4), 0)
    wide.paste(200, (4, 0, 8, 4))
    exif = Image.Exif()
    exif[274] = 6  # stored lying on its side
    wide.save(root / "cat" / "5.png", exif=exif)
    with pytest.raises(UsageError, match=r"4x12 \(width x height\); .*: --image-size"):
        load(str(root))
    splits = load(str(root), reading=Reading(image_size=4))
    assert splits.train.images.shape[1:] == (1, 4, 4)
    assert by_name(splits)["cat/5.png"] == (200, "cat")
    with pytest.raises(UsageError, match="--image-size must be at least 1, got 0"):
        Reading(image_size=0)


def test_names_stay_with_their_images_and_are_never_the_same_twice(tmp_path):
    root = table(tmp_path / "données [v1]", ["a", "b"] * 3)
    (root / "deep er").mkdir()
    (root / "deep er" / "x 1.png").write_bytes(png(77))
    with (root / "train.csv").open("a", encoding="utf-8") as file:
        file.write("deep er\\x 1.png,a\n0.png,b\n")
    found = by_name(load(str(root)))
    assert found["deep er/x 1.png"] == (77, "a")
    assert found["0.png"] == (0, "a")
    assert found["0.png (2)"] == (0, "b")

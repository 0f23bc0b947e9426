"""What is stored for each example is found again by name, whatever became of the data."""

import logging

import pytest
import torch

from tests.cli.data.pictures import png
from tutelage.errors import UsageError
from tutelage_cli.data.by_name import fingerprints, read_by_name, values_of, write_by_name
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labels import read_labels
from tutelage_cli.data.matching import Known
from tutelage_cli.data.sources import load

CLASSES = ("cat", "dog")


def images(names, labels=None, lightness=None):
    """One image per name, its pixels its letter."""
    values = [ord(name[0]) if lightness is None else lightness[name] for name in names]
    pixels = torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    ids = torch.arange(len(names))
    found = torch.zeros(len(names), dtype=torch.int64) if labels is None else labels
    return ImageSet(pixels.contiguous(), found, ids, CLASSES, "toy", tuple(names))


@pytest.fixture
def kept(tmp_path):
    """Weights 0.1 to 0.6 of a to f, stored in an odd place."""
    place = tmp_path / "set [v1] (copy) é"
    place.mkdir()
    weights = torch.arange(1, 7) / 10
    write_by_name(place / "w 1.parquet", images("abcdef"), {"weight": weights.numpy()})
    return read_by_name(place / "w 1.parquet", "weight")


def test_the_same_examples_in_any_order_get_their_own(kept):
    assert values_of(kept, images("abcdef")).tolist() == pytest.approx([
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
    ])
    assert values_of(kept, images("fbdaec")).tolist() == pytest.approx([
        0.6,
        0.2,
        0.4,
        0.1,
        0.5,
        0.3,
    ])


def test_a_deleted_example_is_told_and_shifts_nobody(kept, caplog):
    with pytest.raises(UsageError, match=r"1 rows whose example is gone \(b\)"):
        values_of(kept, images("acdef"))
    with caplog.at_level(logging.WARNING):
        found = values_of(kept, images("acdef"), otherwise=1.0)
    assert found.tolist() == pytest.approx([0.1, 0.3, 0.4, 0.5, 0.6])
    assert "whose example is gone (b)" in caplog.text


def test_new_examples_are_told_and_get_what_is_asked_for(kept):
    with pytest.raises(UsageError, match=r"2 examples that it lacks \(g, h\).*Say what"):
        values_of(kept, images("abcdefgh"))
    found = values_of(kept, images("ghabcdef"), otherwise=1.0)
    assert found.tolist() == pytest.approx([1, 1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6])


def test_a_changed_picture_or_label_is_told(kept):
    lightness = {name: ord(name) for name in "abcdef"} | {"c": 9}
    other = images("abcdef", torch.tensor([0, 0, 0, 0, 1, 0]), lightness)
    with pytest.raises(
        UsageError, match=r"picture has changed \(c\); 1 examples whose label has changed \(e\)"
    ):
        values_of(kept, other)
    found = values_of(kept, other, otherwise=0.0)
    assert found.tolist() == pytest.approx([0.1, 0.2, 0, 0.4, 0, 0.6])


def test_a_fingerprint_is_of_pixels_and_shape():
    one = images("ab")
    assert len(set(fingerprints(one))) == 2
    assert fingerprints(one) == fingerprints(images(["a2", "b2"]))
    flat = ImageSet(
        one.images.reshape(2, 1, 1, 4), one.labels, one.ids, CLASSES, "toy", one.sources
    )
    assert not set(fingerprints(one)) & set(fingerprints(flat))


def test_a_table_of_ones_own_needs_names_and_values(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("path,weight\ndeep\\a.png,0.5\nb.png,2\n")
    kept = read_by_name(file, "weight")
    assert values_of(kept, images(["b.png", "deep/a.png"])).tolist() == [2, 0.5]
    for text, message in (
        ("path,weight\na,0.5\na,1\n", "several rows of a"),
        ("path,weight\na,much\n", "'much' in place of a finite number"),
        ("path,weight\na,nan\n", "'nan' in place"),
        ("weight\n1\n", "none of the columns name, path"),
        ("path,weights\na,1\n", "no column 'weight' .*'weights'"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=message):
            read_by_name(file, "weight")
    with pytest.raises(UsageError, match="there is no table"):
        read_by_name(tmp_path / "nowhere.csv", "weight")


def test_labels_are_found_by_name_where_there_are_names(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("file,l\nb.png,dog\nc.png,dog\na.png,cat\n")
    names = ["a.png", "b.png"]
    assert read_labels(file, "l", 2, CLASSES, examples=Known((0, 1), names)).tolist() == [0, 1]
    with pytest.raises(UsageError, match=r"no row for d\.png; add them"):
        read_labels(file, "l", 2, CLASSES, examples=Known((0, 1), ["a.png", "d.png"]))
    file.write_text("l\ndog\ncat\n")
    assert read_labels(file, "l", 2, CLASSES, examples=Known((0, 1), names)).tolist() == [1, 0]
    file.write_text("file,l\na.png,dog\na.png,cat\n")
    with pytest.raises(UsageError, match=r"several rows of a\.png"):
        read_labels(file, "l", 2, CLASSES, examples=Known((0, 1), names))


def test_a_file_taken_away_shifts_nobody_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "set"
    for number in range(12):
        (root / CLASSES[number % 2]).mkdir(parents=True, exist_ok=True)
        (root / CLASSES[number % 2] / f"{number:02}.png").write_bytes(png(number))
    train = load(str(root)).train
    weights = train.images[:, 0, 0, 0].float().numpy()
    write_by_name(tmp_path / "w.parquet", train, {"weight": weights})
    (root / train.names()[0]).unlink()
    left = load(str(root)).train
    found = values_of(read_by_name(tmp_path / "w.parquet", "weight"), left, otherwise=-1.0)
    known = [name in set(train.names()) for name in left.names()]
    assert sum(known) > 4
    own = left.images[:, 0, 0, 0].float().where(torch.tensor(known), -1)
    assert torch.equal(found, own)


def numbered(path, ids):
    path.write_text("id,weight\n" + "".join(f"{number},{number}\n" for number in ids))
    return read_by_name(path, "weight")


def of_rows(count=20):
    pixels = torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    labels, names = torch.zeros(count).long(), tuple(f"row {row + 2}" for row in range(count))
    ids = torch.arange(count)
    return ImageSet(pixels.contiguous(), labels, ids, CLASSES, "toy", names)


@pytest.mark.parametrize(
    ("ids", "base"),
    [
        ([n for n in range(20) if n not in (3, 4)], 0),
        ([n for n in range(1, 21) if n not in (3, 4)], 1),
        (range(20), 0),
        (range(1, 21), 1),
        ([0, 5, 30], 0),
        ([2, 4, 20], 1),
    ],
)
def test_some_ids_count_from_where_they_must(tmp_path, ids, base):
    found = values_of(numbered(tmp_path / "w.csv", ids), of_rows(), otherwise=99.0)
    known = [number for number in ids if number - base < 20]
    assert found[[number - base for number in known]].tolist() == known


@pytest.mark.parametrize("ids", [[n for n in range(20) if n not in (0, 19)], [1, 30], [2, 4]])
def test_some_ids_that_may_count_from_0_or_from_1_are_refused(tmp_path, ids):
    with pytest.raises(UsageError, match=r"from 0 or from 1; if from 0, add a row of id 0"):
        values_of(numbered(tmp_path / "w.csv", ids), of_rows(), otherwise=99.0)

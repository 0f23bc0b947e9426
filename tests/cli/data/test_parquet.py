"""Tests of local parquet files in the form of the Hub."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.data.pictures import named, png
from tutelage.errors import UsageError
from tutelage_cli.data.by_name import read_columns
from tutelage_cli.data.features.own_features import read_features
from tutelage_cli.data.parquet import parquet_files, parquet_splits, read_parquet
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.tables import table_splits
from tutelage_cli.data.text.own_tables import read_own_texts


def parquet(path, labels, image="image", label="label", stored=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = stored or [{"bytes": png(row), "path": None} for row in range(len(labels))]
    pq.write_table(pa.table({image: stored, label: labels}), path)
    return path


def test_files_belong_to_the_split_that_their_name_begins_with(tmp_path):
    names = ["train-00000-of-00002", "train-00001-of-00002", "test", "test_2017", "training"]
    for name in names:
        (tmp_path / f"{name}.parquet").touch()
    assert {
        key: [path.stem for path in paths] for key, paths in parquet_splits(tmp_path).items()
    } == {
        "test": ["test"],
        "train": names[:2],
    }


def test_files_without_the_name_of_a_split_are_train(tmp_path):
    (tmp_path / "data").mkdir()
    assert parquet_splits(tmp_path) == {}
    (tmp_path / "data" / "all [v1].parquet").touch()
    assert [path.stem for path in parquet_splits(tmp_path)["train"]] == ["all [v1]"]


def test_shards_follow_one_another_and_column_names_are_guessed(tmp_path):
    root = tmp_path / "set [v1] label=3"
    first = parquet(root / "train-0.parquet", ["dog", "cat"], "img", "fine_label")
    second = parquet(root / "train-1.parquet", ["cat"], "img", "fine_label")
    train, test = read_parquet({"train": [first, second]})
    assert train.images[:, 0, 0, 0].tolist() == [0, 1, 0]
    assert list(train.labels) == ["dog", "cat", "cat"]
    assert train.classes is None
    assert test is None


def test_declared_class_names_are_kept(tmp_path):
    file = tmp_path / "train.parquet"
    named([2, 0]).to_parquet(file)
    train, _ = read_parquet({"train": [file]})
    assert train.classes == ("cat", "dog", "emu")
    assert list(train.labels) == [2, 0]


def test_dictionaries_bytes_and_paths_are_read(tmp_path):
    (tmp_path / "a.png").write_bytes(png(5))
    words = pa.array(["hi", "lo"]).dictionary_encode()
    first = parquet(tmp_path / "train.parquet", words, stored=[png(4), png(3)])
    second = parquet(tmp_path / "test.parquet", ["hi"], stored=["a.png"])
    train, test = read_parquet({"train": [first], "test": [second]})
    assert list(train.labels) == ["hi", "lo"]
    assert test is not None
    assert test.images.unique().tolist() == [5]


def test_unknown_columns_are_named(tmp_path):
    file = parquet(tmp_path / "train.parquet", ["a"])
    with pytest.raises(
        UsageError, match=r"no column 'lable' \(--label-column\). Did you mean 'label'"
    ):
        read_parquet({"train": [file]}, Reading(label_column="lable"))
    other = parquet(tmp_path / "other.parquet", ["a"], "pixels")
    with pytest.raises(
        UsageError, match=r"none of the columns image, img; .* there: pixels, label"
    ):
        read_parquet({"train": [other]})


def test_broken_files_and_rows_are_named(tmp_path):
    broken = tmp_path / "train.parquet"
    broken.write_bytes(b"PAR1 but no more")
    with pytest.raises(UsageError, match=r"train.parquet is not a whole parquet file"):
        read_parquet({"train": [broken]})
    file = parquet(tmp_path / "a.parquet", ["a", "b"], stored=[png(1), b"no picture"])
    with pytest.raises(UsageError, match=r"row 3 .* of .*a.parquet cannot be read as an image"):
        read_parquet({"train": [file]})
    numbers = parquet(tmp_path / "b.parquet", ["a", "b"], stored=[1.5, 2.5])
    with pytest.raises(
        UsageError, match=r"row 2 .* of .*b.parquet holds float, not an image file"
    ):
        read_parquet({"train": [numbers]})


def test_a_train_split_is_needed(tmp_path):
    with pytest.raises(UsageError, match="no split 'train'; splits there: test"):
        read_parquet({"test": [parquet(tmp_path / "test.parquet", ["a"])]})


@pytest.mark.parametrize(
    ("stored", "kept"),
    [
        ([{"bytes": png(1), "path": "a.png"}, {"bytes": png(2), "path": None}], True),
        ([png(1), png(2)], True),
        ([{"bytes": png(1), "path": None}, {"bytes": None, "path": "a.png"}], False),
        ([{"path": "a.png"}, {"path": "a.png"}], False),
        (["a.png", "a.png"], False),
        ([png(1), None], False),
    ],
)
def test_files_are_listed_where_all_images_lie_in_them(tmp_path, stored, kept):
    train = parquet(tmp_path / "train.parquet", ["a", "b"])
    test = parquet(tmp_path / "test.parquet", ["a", "b"], stored=stored)
    other = parquet(tmp_path / "val.parquet", ["a", "b"], "pixels")
    files = {"train": [train], "test": [test], "val": [other]}
    assert parquet_files(files) == ([train, test] if kept else [])


def test_files_without_statistics_are_not_listed(tmp_path):
    file = tmp_path / "train.parquet"
    pq.write_table(pa.table({"img": [png(1)], "label": ["a"]}), file, write_statistics=False)
    assert parquet_files({"train": [file]}) == []


@pytest.mark.parametrize("place", [10, 60, 120, 200])
def test_damage_within_a_file_is_told_with_its_name(tmp_path, place):
    file = tmp_path / "train.parquet"
    rows = [f"text {row} of many" for row in range(400)]
    vectors = [[float(row), 1.0] for row in range(400)]
    columns = {"text": rows, "label": ["a", "b"] * 200, "embedding": vectors}
    pq.write_table(pa.table(columns), file, compression="none")
    whole = file.read_bytes()
    for width in (4, 40, 400):
        file.write_bytes(whole[:place] + b"\xff" * width + whole[place + width :])
        for read in (
            lambda: read_own_texts(str(file), ("text",)),
            lambda: read_features(str(file)),
            lambda: read_columns(file),
        ):
            assert refusal_of(read) in ("", "one line with the name")


def refusal_of(read) -> str:
    try:
        read()
    except UsageError as error:
        named = "train.parquet" in str(error) and "\n" not in str(error)
        return "one line with the name" if named else str(error)
    return ""


def test_a_column_of_texts_that_holds_something_else_says_what(tmp_path):
    for values, kind in (([1, 2] * 9, "numbers"), ([b"a"] * 18, "of type binary")):
        pq.write_table(
            pa.table({"text": values, "label": ["a", "b"] * 9}), tmp_path / "a.parquet"
        )
        with pytest.raises(UsageError, match=f"column 'text' of .* is {kind}; allowed: texts"):
            read_own_texts(str(tmp_path / "a.parquet"), ("text",))


def test_hidden_files_of_a_system_are_no_tables(tmp_path):
    for name in ("rows.parquet", "._rows.parquet", "labels.csv", "._labels.csv", ".DS_Store"):
        (tmp_path / name).touch()
    assert parquet_splits(tmp_path) == {"train": [tmp_path / "rows.parquet"]}
    assert table_splits(tmp_path) == {"train": tmp_path / "labels.csv"}

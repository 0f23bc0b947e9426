"""A label is the class that it names, in whichever file and part of a source it stands."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trained import one_line, run
from tutelage.errors import UsageError
from tutelage_cli.data.labels import read_labels
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load
from tutelage_cli.data.text.own_tables import read_own_texts

STARS = [n % 5 + 1 for n in range(20)]


def csv(folder, **parts):
    """A folder with one csv file of texts for each part, from its labels."""
    folder.mkdir(exist_ok=True)
    for part, labels in parts.items():
        rows = "".join(f"text {n},{label}\n" for n, label in enumerate(labels))
        (folder / f"{part}.csv").write_text(f"text,label\n{rows}")
    return folder


def parquet(folder, **parts):
    """The same in Parquet; a part may be labels and the class names that it declares."""
    folder.mkdir(exist_ok=True)
    for part, given in parts.items():
        labels, names = given if isinstance(given, tuple) else (given, None)
        table = pa.table({"text": [f"text {n}" for n in range(len(labels))], "label": labels})
        if names is not None:
            kinds = {
                "text": {"_type": "Value", "dtype": "string"},
                "label": {"_type": "ClassLabel", "names": names},
            }
            told = json.dumps({"info": {"features": kinds}})
            table = table.replace_schema_metadata({"huggingface": told})
        pq.write_table(table, folder / f"{part.replace('_', '-')}.parquet")
    return folder


def named(folder, **reading):
    """The class that each text of both parts got, by its name."""
    parts = read_own_texts(str(folder), ("text",), reading=Reading(**reading))
    return [[of.classes[y] for y in of.labels.tolist()] for of in (parts.train, parts.test)]


def test_a_number_is_the_class_it_names_beside_a_part_with_words(tmp_path):
    train, test = named(csv(tmp_path / "a", train=[*STARS, "n/a"], test=STARS))
    assert train == [*map(str, STARS), "n/a"]
    assert test == list(map(str, STARS))
    # left out, the mark changes nothing for the others
    train, test = named(tmp_path / "a", ignore_labels=("n/a",))
    assert train == test == list(map(str, STARS))


AGREE = {
    "whole numbers with a point": (csv, [1, 2, "n/a"], ["1.0", "2.0"], ["1", "2"]),
    "names with a point": (csv, ["1.0", "2.0", "n/a"], [2, 1], ["2.0", "1.0"]),
    "blanks around numbers": (csv, [" 1", "2 "], [2, 1], ["2", "1"]),
    "words beside numbers": (parquet, ["1", "2", "n/a"], [2, 1], ["2", "1"]),
    "other types of numbers": (parquet, [1, 2], [2.0, 1.0], ["2", "1"]),
    "names in another order": (
        parquet,
        ([0, 1], ["cat", "dog"]),
        ([0, 1], ["dog", "cat"]),
        ["dog", "cat"],
    ),
    "names beside words": (parquet, ([0, 1], ["cat", "dog"]), ["dog", "cat"], ["dog", "cat"]),
    "words beside names": (parquet, ["cat", "dog"], ([0, 1], ["dog", "cat"]), ["dog", "cat"]),
    "places in the names of train": (parquet, ([0, 1], ["cat", "dog"]), [1, 0], ["dog", "cat"]),
    "places in the names of test": (parquet, [0, 1], ([1, 0], ["cat", "dog"]), ["dog", "cat"]),
    "names that are numbers": (parquet, ([0, 1], ["7", "3"]), [3, 7], ["3", "7"]),
    "a dictionary": (parquet, pa.array(["b", "a"]).dictionary_encode(), ["a", "b"], ["a", "b"]),
    "true and false": (parquet, [True, False], [False, True], ["False", "True"]),
}


@pytest.mark.parametrize("name", AGREE)
def test_both_parts_speak_of_the_same_classes(tmp_path, name):
    write, train, test, expected = AGREE[name]
    assert named(write(tmp_path / "a", train=train, test=test))[1] == expected


DIFFER = {
    "words, then numbers": (csv, ["cat", "dog"], [0, 1], "label 0, which is no class"),
    "numbers, then words": (csv, [0, 1], ["cat", "dog"], "label 'cat', which is no class"),
    "zeros in front": (csv, ["01", "02"], [1, 2], "label 1, which is no class"),
    "another case": (csv, ["cat", "dog"], ["Cat"], "Did you mean 'cat'"),
    "a blank": (csv, ["cat", "dog"], [" cat"], "Did you mean 'cat'"),
    "a class that train lacks": (csv, [1, 2], [3], "label 3; allowed: 0..2"),
    "a word that marks": (csv, STARS, [*STARS, "n/a"], "'n/a', which is no class"),
    "no such place": (parquet, ([0, 1], ["cat", "dog"]), [2], "label 2; allowed: 0..1"),
    "a name that train lacks": (parquet, ([0, 1], ["a", "b"]), ([0], ["c"]), "label 0"),
    "numbers beside truth": (parquet, [True, False], [1, 0], "label 1, which is no class"),
}


@pytest.mark.parametrize("name", DIFFER)
def test_a_label_that_train_does_not_know_is_refused_with_both_files(tmp_path, name):
    write, train, test, message = DIFFER[name]
    with pytest.raises(UsageError) as raised:
        named(write(tmp_path / "a", train=train, test=test))
    assert message in str(raised.value)
    assert "test." in str(raised.value)
    assert "train." in str(raised.value)


@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("second", [["a", "b"], ["0", "1"], [True, False], [b"a", b"b"]])
def test_shards_of_mixed_types_are_refused_with_both_files(tmp_path, second, texts):
    folder = parquet(tmp_path / "a", train_0=[0, 1], train_1=second, train_2=[None, 1])
    read = named if texts else lambda of: load(str(of), Reading(image_column="text"))
    with pytest.raises(UsageError, match=r"train-0\.parquet, but .* in .*train-1\.parquet"):
        read(folder)


def test_shards_keep_their_own_names_and_rows_are_told_by_file(tmp_path):
    shards = {"train_0": ([0, 1, 1], ["cat", "dog"]), "train_1": ([0, 1], ["dog", "cat"])}
    train, test = named(parquet(tmp_path / "a", **shards, test=["cat", "dog"]))
    assert train == ["cat", "dog", "dog", "dog", "cat"]
    assert test == ["cat", "dog"]
    other = parquet(tmp_path / "b", train_0=[0, 1, 1], train_1=[0, None])
    with pytest.raises(UsageError, match=r"train-1\.parquet has no label in row 3 \("):
        named(other)
    parquet(tmp_path / "c", **shards, train_2=[0, 1])
    with pytest.raises(UsageError, match=r"train-2\.parquet has numbers .* does not name"):
        named(tmp_path / "c")


CLASSES = ("1", "2", "n/a")


@pytest.mark.parametrize(
    ("values", "classes", "expected"),
    [
        ([2, 1], CLASSES, [1, 0]),
        ([2.0, 1.0], CLASSES, [1, 0]),
        (["1", "n/a"], CLASSES, [0, 2]),
        ([2, 0], ("cat", "dog", "emu"), [2, 0]),
        ([True, False], ("False", "True"), [1, 0]),
    ],
)
def test_other_labels_name_the_same_classes(tmp_path, values, classes, expected):
    pq.write_table(pa.table({"l": values}), tmp_path / "a.parquet")
    assert read_labels(tmp_path / "a.parquet", "l", 2, classes).tolist() == expected


def test_other_labels_with_names_of_their_own_go_by_these(tmp_path):
    folder = parquet(tmp_path / "a", train=([0, 1], ["dog", "cat"]))
    assert read_labels(folder, "label", 2, ("cat", "dog")).tolist() == [1, 0]
    (tmp_path / "b.csv").write_text("l\n0\n1\n")
    with pytest.raises(UsageError, match="label 0, which is no class"):  # a name, not a place
        read_labels(tmp_path / "b.csv", "l", 2, ("01", "02"))


IDS = {
    "few of many": ([0, 10**9] * 15, "labels up to 1000000000, but 2 different ones"),
    "beyond 64 bits": ([10**30, 1] * 15, "but 2 different ones"),
    "each its own number": (range(40), "40 different labels in 40 rows"),
    "each its own word": ([f"u{n}" for n in range(40)], "such as 'u0' and 'u1'"),
    "nearly each": ([*range(1000, 1036), 1, 1, 2, 2], "38 different labels in 40 rows"),
}


@pytest.mark.parametrize("name", IDS)
def test_a_column_of_ids_is_recognised(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels, message = IDS[name]
    csv(tmp_path / "a", train=labels)
    one_line(run("train", "a"), message, "is this an id?", "--label-column")


def test_many_classes_and_declared_ones_are_no_ids(tmp_path):
    classes = named(csv(tmp_path / "a", train=[*range(500), *range(500)]))[0]
    assert len(set(classes)) == 500
    names = [f"c{n}" for n in range(30)]
    assert named(parquet(tmp_path / "b", train=(range(30), names), test=["c1"]))[1] == ["c1"]


@pytest.mark.parametrize("label", ["inf", "-Infinity", "+inf"])
def test_infinity_among_numbers_is_no_class(tmp_path, label):
    with pytest.raises(UsageError, match=r"row 4 .*inf of type float; allowed: whole numbers"):
        named(csv(tmp_path / "a", train=[0, 1, label] * 5))
    assert named(csv(tmp_path / "a", train=["a", label] * 5))[0].count(label) == 4


@pytest.mark.parametrize("label", [float("inf"), 0.5, 2.0**60])
def test_numbers_that_are_not_whole_are_no_classes(tmp_path, label):
    with pytest.raises(UsageError, match=r"row 3 .* of type float; allowed: whole numbers"):
        named(parquet(tmp_path / "a", train=[0.0, label] * 5))


@pytest.mark.parametrize("write", [csv, parquet])
@pytest.mark.parametrize("blank", ["", "  "])
def test_a_text_of_blanks_is_no_label(tmp_path, write, blank):
    folder = write(tmp_path / "a", train=["cat", "dog", blank] * 5)
    with pytest.raises(UsageError, match=r"no label in rows 4, 7, 10"):
        named(folder)
    assert {label for part in named(folder, missing_labels="skip") for label in part} == {
        "cat",
        "dog",
    }


def test_an_ignored_name_among_declared_ones_is_left_out(tmp_path):
    folder = parquet(tmp_path / "a", train=([0, 1, 2] * 5, ["cat", "dog", "unknown"]))
    train, test = named(folder, ignore_labels=("unknown",))
    assert set(train + test) == {"cat", "dog"}
    assert len(train + test) == 10

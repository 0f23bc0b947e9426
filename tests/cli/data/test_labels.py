"""Tests of other labels for a known split."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.labels import read_labels

CLASSES = ("cat", "dog", "emu")


def parquet(path, values, column="worse_label"):
    pq.write_table(pa.table({"idx": list(range(len(values))), column: values}), path)
    return path


@pytest.mark.parametrize("values", [[2, 0, 1], ["emu", "cat", "dog"], [2.0, 0.0, 1.0]])
def test_numbers_and_names_are_read_from_parquet(tmp_path, values):
    file = parquet(tmp_path / "a [v1].parquet", values)
    assert read_labels(file, "worse_label", 3, CLASSES).tolist() == [2, 0, 1]


@pytest.mark.parametrize("text", ["2\n0\n1\n", "emu\ncat\ndog\n"])
def test_numbers_and_names_are_read_from_csv(tmp_path, text):
    (tmp_path / "a.csv").write_text("worse_label\n" + text)
    assert read_labels(tmp_path / "a.csv", "worse_label", 3, CLASSES).tolist() == [2, 0, 1]


def test_names_made_of_digits_come_before_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("l\n3\n7\n")
    assert read_labels(tmp_path / "a.csv", "l", 2, ("3", "7")).tolist() == [0, 1]


def test_a_folder_stands_for_its_one_train_file(tmp_path):
    parquet(tmp_path / "train-00000-of-00001.parquet", [0, 1])
    parquet(tmp_path / "test-00000-of-00001.parquet", [2])
    assert read_labels(tmp_path, "worse_label", 2, CLASSES).tolist() == [0, 1]
    parquet(tmp_path / "train-1.parquet", [0, 1])
    with pytest.raises(UsageError, match="holds 2 parquet files for the split train"):
        read_labels(tmp_path, "worse_label", 2, CLASSES)


def test_a_missing_file_or_another_kind_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"there is no file .*a.csv; give a .parquet or .csv"):
        read_labels(tmp_path / "a.csv", "l", 2, CLASSES)
    (tmp_path / "a.txt").touch()
    with pytest.raises(UsageError, match=r"allowed: a .parquet or .csv file"):
        read_labels(tmp_path / "a.txt", "l", 2, CLASSES)


def test_a_missing_column_is_named_with_the_nearest(tmp_path):
    file = parquet(tmp_path / "a.parquet", [0, 1])
    with pytest.raises(
        UsageError, match=r"'wrose_label' .*Did you mean 'worse_label'\? Allowed: idx"
    ):
        read_labels(file, "wrose_label", 2, CLASSES)


def test_another_number_of_rows_is_refused_with_both(tmp_path):
    (tmp_path / "a.csv").write_text("l\n0\n1\n")
    with pytest.raises(UsageError, match="has 2 rows, but the train split has 3"):
        read_labels(tmp_path / "a.csv", "l", 3, CLASSES)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 3], r"row 3 .* has label 3; allowed: 0..2"),
        ([0, -1], r"row 3 .* has label -1; allowed: 0..2"),
        (["cat", "dgo"], r"row 3 .* 'dgo', which is no class. Did you mean 'dog'"),
        ([0, None], "no label in row 3"),
    ],
)
def test_what_is_no_class_is_named(tmp_path, values, message):
    file = parquet(tmp_path / "a.parquet", values)
    with pytest.raises(UsageError, match=message):
        read_labels(file, "worse_label", 2, CLASSES)


def test_human_labels_of_real_photos_are_wrong_two_times_in_five(real_data):
    names = ("airplane", "automobile", "bird", "cat", "deer")
    names += ("dog", "frog", "horse", "ship", "truck")
    folder = real_data / "cifar10n"
    worse = read_labels(folder, "worse_label", 50000, names)
    clean = read_labels(folder, "clean_label", 50000, names)
    assert worse.dtype == torch.int64
    assert 0.39 < float((worse != clean).double().mean()) < 0.41

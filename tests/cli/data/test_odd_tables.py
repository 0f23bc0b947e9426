"""Tables that are not what they should be are told as what they are, by file and row."""

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trained import one_line, pictures, run
from tutelage.errors import UsageError
from tutelage_cli.data.by_name import read_by_name, read_columns, values_of
from tutelage_cli.data.csv_files import read_csv
from tutelage_cli.data.labels import read_labels
from tutelage_cli.data.matching import Known
from tutelage_cli.data.parquet_files import open_parquet
from tutelage_cli.data.stored import load_stored
from tutelage_cli.data.text.own_tables import read_own_texts

SMALL = ["--batch-size", "2"]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def twice(path):
    """A Parquet file in which a column name stands twice."""
    columns = [pa.array(["a", "b"]), pa.array([0, 1]), pa.array([1, 0])]
    pq.write_table(pa.Table.from_arrays(columns, names=["path", "label", "label"]), path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("door", ["weights", "labels", "inspect", "texts", "images"])
def test_a_column_name_that_stands_twice_is_refused_wherever_a_table_is_read(
    tmp_path, monkeypatch, kind, door
):
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "pets", count=3)
    file = tmp_path / f"t.{kind}"
    if kind == "parquet":
        twice(file)
    else:
        write(file, "path,label,label\na,0,1\nb,1,0\n")
    words = {
        "weights": ["train", "pets", "--weights-from", file, *SMALL],
        "labels": ["train", "pets", "--labels-from", file, "--label-column", "label"],
        "inspect": ["inspect", file],
        "texts": ["train", file, "--text-column", "path"],
        "images": ["train", file],
    }
    one_line(run(*words[door]), "several columns named 'label'", file.name)


def test_names_that_differ_in_case_alone_are_not_guessed_among(tmp_path):
    file = write(tmp_path / "a.csv", "text,label,Label\na,0,1\n")
    with pytest.raises(
        UsageError, match="'label' and 'Label'; name one of them with --label-c"
    ):
        read_own_texts(str(file), ("text",))
    assert read_csv(write(file, "text,label,,\na,0,,\n"))["label"] == ["0"]  # of a spreadsheet


SEPARATED = {
    "semicolons": "text;label\nfine, really;1\n",
    "semicolons and a comma": "text;loss, nats;label\na;1,5;1\n",
    "tabs": "text\tlabel\na\t1\n",
    "bars": "text|label\na|1\n",
}


@pytest.mark.parametrize("name", SEPARATED)
def test_a_table_that_is_separated_otherwise_says_so(tmp_path, name):
    file = write(tmp_path / "a.csv", SEPARATED[name])
    one_line(run("train", file), f"separated by {name.split()[0]}", "Save it with commas")


def test_separators_inside_of_names_and_values_are_no_separators(tmp_path):
    file = write(tmp_path / "a.csv", '"a;b",label\n"c;d;e",1\n')
    assert read_csv(file) == {"a;b": ["c;d;e"], "label": ["1"]}


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_file_says_so(tmp_path, text):
    file = write(tmp_path / "a.csv", text)
    one_line(run("train", file), "a.csv is empty")
    one_line(run("inspect", file), "a.csv is empty")


def test_rows_are_counted_as_a_spreadsheet_counts_them_empty_lines_too(tmp_path):
    text = '\ntext,label\n"two\nlines",a\n\n\nb,b\nc,\n\n'
    file = write(tmp_path / "a.csv", text)
    columns = read_csv(file)
    assert columns.numbers == [3, 6, 7]
    assert columns.empty == [4, 5]
    with pytest.raises(UsageError, match=r"a\.csv has no label in row 7 \(the header is row 1"):
        read_own_texts(str(file), ("text",))
    with pytest.raises(UsageError, match=r"row 7 .* has 1 values, but there are 2 columns"):
        read_csv(write(file, text.replace("c,", "c")))
    rows = "".join(f"t{n},{'ab'[n % 2]}\n" for n in range(10))
    parts = read_own_texts(str(write(file, f"text,label\n\n{rows}")), ("text",))
    assert parts.notes == (f"{file}: 1 empty line left out, row 2 (the header is row 1).",)
    for part in (parts.train, parts.test):
        assert part.names() == [f"row {int(text[1:]) + 3}" for text in part.sides[0]]


def test_a_long_field_is_read_and_the_limit_of_others_stays(tmp_path):
    import csv

    before = csv.field_size_limit()
    file = write(tmp_path / "a.csv", f"text,label\n{'word ' * 60_000},a\n")
    assert len(read_csv(file)["text"][0]) == 300_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("several", [True, False])
def test_what_save_to_disk_wrote_is_recognised_and_told_how_to_export(tmp_path, several):
    one = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
    saved = datasets.DatasetDict({"train": one, "test": one}) if several else one
    saved.save_to_disk(tmp_path / "saved")
    for read in (
        lambda: load_stored(str(tmp_path / "saved")),
        lambda: read_own_texts(str(tmp_path / "saved"), ("text",)),
        lambda: read_labels(tmp_path / "saved", "label", 2, ("a", "b")),
    ):
        with pytest.raises(UsageError, match=r"save_to_disk of datasets.*to_parquet"):
            read()
    one_line(run("train", tmp_path / "saved", "--text-column", "text"), "save_to_disk")


VALUES = ["inf", "nan", "", "1e39", "-1", "1_0", "much", "-0.5"]


@pytest.mark.parametrize("value", VALUES)
def test_a_weight_that_is_none_is_refused_by_row_and_name(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "pets", count=3)
    file = write(tmp_path / "w.csv", f"path,weight\ncat/00.png,1\n\ncat/01.png,{value}\n")
    answer = run("train", "pets", "--weights-from", file, "--default-weight", "1", *SMALL)
    one_line(answer, "row 4", "cat/01.png", repr(value), "finite number of 0 or above")


def test_names_that_are_missing_or_come_twice_are_refused_by_row(tmp_path):
    file = write(tmp_path / "w.csv", "path,weight\na,1\n,2\nb,1\na,1\n")
    with pytest.raises(UsageError, match=r"w\.csv has no name in row 3"):
        read_by_name(file, "weight")
    write(file, "path,weight\na,1\nb,1\na,1\n")
    with pytest.raises(UsageError, match=r"several rows of a in rows 2, 4"):
        read_by_name(file, "weight")
    pq.write_table(pa.table({"name": ["a", None], "l": [0, 1]}), tmp_path / "l.parquet")
    with pytest.raises(UsageError, match="has no name in row 3"):
        read_labels(
            tmp_path / "l.parquet", "l", 2, ("x", "y"), examples=Known((0, 1), ["a", "b"])
        )


def test_labels_of_a_table_of_weights_are_the_classes_they_name(tmp_path):
    root = pictures(tmp_path / "pets", ("1", "2"), count=2)
    images = load_stored(str(root)).train
    rows = "".join(f"{name},1,{name[0]}.0\n" for name in images.names())
    kept = read_by_name(write(tmp_path / "w.csv", f"path,weight,label\n{rows}"), "weight")
    assert values_of(kept, images).tolist() == [1.0] * len(images)
    kept = read_by_name(write(tmp_path / "w.csv", "path,weight,label\n1/00.png,1,\n"), "weight")
    assert kept.labels == {}  # missing, not another one


def test_rows_of_other_labels_that_name_no_example_are_counted(tmp_path, caplog):
    file = write(tmp_path / "l.csv", "path,l\na,x\nb,y\nc,x\n")
    assert read_labels(file, "l", 1, ("x", "y"), examples=Known((0,), ["b"])).tolist() == [1]
    assert "2 rows are about no training example and left out (a, c)" in caplog.text


def test_pictures_are_not_read_with_the_labels_beside_them(tmp_path):
    stored = [{"bytes": b"x" * 9, "path": None}, {"bytes": b"y", "path": None}]
    pq.write_table(pa.table({"image": stored, "l": [0, 1]}), tmp_path / "a.parquet")
    assert list(read_columns(tmp_path / "a.parquet")) == ["l"]
    known = Known((0, 1), ["p", "q"])
    found = read_labels(tmp_path / "a.parquet", "l", 2, ("x", "y"), examples=known)
    assert found.sum() == 1
    with pytest.raises(UsageError, match="not a whole parquet file"):
        open_parquet(write(tmp_path / "b.parquet", ""))

"""Tests of csv files that list images."""

import pytest
from PIL import Image

from tutelage.errors import UsageError
from tutelage_cli.data.csv_files import read_csv
from tutelage_cli.data.label_values import literal
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.stored import load_stored
from tutelage_cli.data.tables import lists_images, read_tables, table_splits


def table(folder, text, name="labels.csv"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def pictures(folder, *names):
    for value, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), value).save(folder / name, "PNG")


def read(file, image_column=None, label_column=None):
    return read_tables(
        {"train": file}, Reading(image_column=image_column, label_column=label_column)
    )[0]


def test_split_words_in_file_names_are_no_splits(tmp_path):
    names = ["photo of a cat.png", "photo of a train.png", "test tubes.png", "val stamp.png"]
    pictures(tmp_path, *names)
    file = table(tmp_path, "file,label\n" + "".join(f"{name},{name[0]}\n" for name in names))
    train = read(file)
    assert train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert train.labels == ["p", "p", "t", "v"]


@pytest.mark.parametrize("path", ["path", "file", "file_name", "filename", "image", "Image"])
@pytest.mark.parametrize("label", ["label", "target", "class", "Label"])
def test_usual_column_names_are_guessed(tmp_path, path, label):
    pictures(tmp_path, "a.png")
    assert read(table(tmp_path, f"id,{label},{path}\n9,cat,a.png\n")).labels == ["cat"]


def test_wanted_columns_win_and_unknown_ones_are_named(tmp_path):
    pictures(tmp_path, "a.png")
    file = table(tmp_path, "file,label,kind\na.png,cat,fine\n")
    assert read(file, label_column="kind").labels == ["fine"]
    with pytest.raises(
        UsageError, match=r"no column 'kinds' \(--label-column\). Did you mean 'kind'"
    ):
        read(file, label_column="kinds")
    with pytest.raises(UsageError, match=r"Columns there: picture, label"):
        read(table(tmp_path, "picture,label\na.png,cat\n"))


def test_backslashes_stand_for_slashes(tmp_path):
    pictures(tmp_path / "données [v1]", "x 1.png")
    file = table(tmp_path, "path,label\ndonnées [v1]\\x 1.png,a\ndonnées [v1]/x 1.png,b\n")
    assert len(read(file).images) == 2


def test_a_missing_image_is_named_with_path_and_row(tmp_path):
    pictures(tmp_path, "a.png")
    file = table(tmp_path, "path,label\na.png,x\nb.png,y\n")
    with pytest.raises(
        UsageError, match=r"b.png \(row 3 of labels.csv, .*No such file"
    ) as caught:
        read(file)
    assert str(tmp_path / "b.png") in str(caught.value)


def test_labels_are_taken_literally():
    words = ["spam", "null", "None", "NA", "spam ", "nan", "007"]
    assert literal(words) == words
    assert literal(["0", "", "NaN", "1", "2.0"]) == [0, None, None, 1, 2]
    assert literal(["0", "255", "-1"]) == [0, 255, -1]
    assert literal(["1", "", "two"]) == ["1", None, "two"]
    assert literal(["", ""]) == [None, None]
    assert literal(["one", "  ", " two"]) == ["one", None, " two"]


def test_tables_of_a_folder_are_found_by_split(tmp_path):
    assert table_splits(tmp_path) == {}
    only = table(tmp_path, "a\n", "Labels.CSV")
    assert table_splits(tmp_path) == {"train": only}
    table(tmp_path, "a\n", "more.csv")
    with pytest.raises(UsageError, match=r"several csv files \(Labels.CSV, more.csv\)"):
        table_splits(tmp_path)
    train, test = table(tmp_path, "a\n", "train.csv"), table(tmp_path, "a\n", "test.csv")
    assert table_splits(tmp_path) == {"train": train, "test": test}


def test_test_tables_are_read_too(tmp_path):
    pictures(tmp_path, "a.png", "b.png")
    files = {
        name: table(tmp_path, "path,label\nb.png,x\n", f"{name}.csv")
        for name in ("train", "val")
    }
    _, test = read_tables(files)
    assert test is not None
    assert test.images[:, 0, 0, 0].tolist() == [1]


def test_rows_must_have_as_many_values_as_there_are_columns(tmp_path):
    with pytest.raises(
        UsageError, match=r"row 3 .* of .* has 3 values, but there are 2 columns"
    ):
        read_csv(table(tmp_path, "path,label\na.png,x\nb,c.png,y\n"))


def test_marks_and_empty_lines_are_passed_over_and_quotes_kept_whole(tmp_path):
    file = table(tmp_path, '\ufeffpath,label\n\n"a, b.png",x\n')
    assert read_csv(file) == {"path": ["a, b.png"], "label": ["x"]}
    assert lists_images(file)
    assert not lists_images(file, Reading(image_column="file"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,Label,label\nimages/a.png,x,x\n", "columns 'Label' and 'label'"),
        ("path;label\nimages/a.png;x\n", "semicolons"),
        ("path,label\nimages/a.png,x,y\n", "3 values"),
    ],
)
def test_a_table_that_is_wrong_is_not_passed_over_for_the_folders_beside_it(
    tmp_path, text, message
):
    (tmp_path / "images").mkdir()
    pictures(tmp_path / "images", "a.png")
    table(tmp_path, text, "train.csv")
    with pytest.raises(UsageError, match=message):
        load_stored(str(tmp_path))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_tables_in_wide_letters_say_so(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes("path,label\na.png,x\n".encode(encoding))
    with pytest.raises(UsageError, match=r"a\.csv is no UTF-8 csv file.*'CSV UTF-8'"):
        read_csv(tmp_path / "a.csv")


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_line_for_spreadsheets_alone_is_named(tmp_path, separator):
    text = f"sep={separator}\npath{separator}label\n"
    with pytest.raises(UsageError, match=r"begins with the line 'sep=.*take it out"):
        read_csv(table(tmp_path, text))


def test_a_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("path,label\né,x\n".encode("latin-1"))
    with pytest.raises(UsageError, match="cannot be read as a UTF-8 csv file"):
        read_csv(tmp_path / "a.csv")

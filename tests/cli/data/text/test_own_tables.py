from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tutelage.errors import UsageError
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.text.own_tables import read_own_texts, text_columns
from tutelage_cli.data.text.text_set import TextSet

ROWS = [("fine", "good"), ("awful, really", "bad")] * 5


def _csv(file: Path, header: str, rows) -> str:
    lines = [header, *('"' + '","'.join(map(str, row)) + '"' for row in rows)]
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def _by_row(part: TextSet) -> dict[int, tuple[str, str]]:
    named = [part.classes[label] for label in part.labels.tolist()]
    return dict(zip(part.ids.tolist(), zip(part.sides[0], named, strict=True), strict=True))


def test_a_table_gives_every_row_its_text_and_class_and_holds_a_fifth_out(tmp_path):
    source = _csv(tmp_path / "mine.csv", "Review,label", ROWS)
    assert text_columns(source) == ("Review",)
    found = read_own_texts(source, ("Review",))
    train, test = found.train, found.test
    assert train.classes == test.classes == ("bad", "good")
    assert _by_row(train) | _by_row(test) == dict(enumerate(ROWS))
    assert len(train) == 8
    assert not found.notes
    assert train.name == "mine.csv"


def test_pairs_of_sentences_are_known_by_their_columns(tmp_path):
    rows = [("is it?", "it is", "yes"), ("is it?", "no", "no")] * 3
    source = _csv(tmp_path / "pairs.csv", "question,sentence,label", rows)
    columns = text_columns(source)
    assert columns == ("question", "sentence")
    train = read_own_texts(source, columns).train
    assert train.shown()[0] in {"is it? | it is", "is it? | no"}


def test_a_folder_in_the_form_of_the_hub_gives_declared_classes_and_its_labelled_test(tmp_path):
    def write(split: str, labels: list[int]) -> None:
        columns = {"sentence": [f"{split} {n}" for n in range(len(labels))], "label": labels}
        pq.write_table(pa.table(columns), tmp_path / f"{split}-00000-of-00001.parquet")

    write("train", [0, 1, 1])
    write("test", [-1, -1])
    write("validation", [1, 0])
    found = read_own_texts(str(tmp_path), text_columns(str(tmp_path)))
    train, test = found.train, found.test
    assert train.sides == (("train 0", "train 1", "train 2"),)
    assert test.sides == (("validation 0", "validation 1"),)
    assert test.labels.tolist() == [1, 0]


def test_a_table_with_images_or_without_known_columns_is_none_of_texts(tmp_path):
    both = _csv(tmp_path / "both.csv", "text,path,label", [("a", "b.png", "c")])
    other = _csv(tmp_path / "other.csv", "words,label", [("a", "c")])
    assert text_columns(both) == text_columns(other) == text_columns(str(tmp_path / "x")) == ()
    assert text_columns(both, ["text"]) == ("text",)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([("a", "x"), ("b", "")], ["text"], r"no label in row 3 .*--missing-labels skip"),
        ([("a", "x"), ("b", "x")], ["text"], r"one class only \('x'\)"),
        ([], ["text"], "holds no row with a label"),
        (ROWS, ["txt"], "no column 'txt'.*Did you mean 'text'"),
    ],
)
def test_what_is_no_set_of_texts_with_classes_is_refused(tmp_path, rows, columns, message):
    source = _csv(tmp_path / "mine.csv", "text,label", rows)
    with pytest.raises(UsageError, match=message):
        read_own_texts(source, columns)


def test_rows_without_a_label_are_left_out_where_asked_and_keep_the_others_ids(tmp_path):
    rows = [("a", "x"), ("b", ""), ("c", "y"), ("d", "x"), ("e", "y")]
    source = _csv(tmp_path / "mine.csv", "text,label", rows)
    found = read_own_texts(source, ["text"], Reading(missing_labels="skip"))
    ids = [*found.train.ids.tolist(), *found.test.ids.tolist()]
    assert sorted(ids) == [0, 2, 3, 4]
    assert found.notes == (f"{source} has no label in row 3 (the header is row 1): left out.",)


def test_a_text_that_is_missing_is_refused_and_an_empty_one_is_a_text(tmp_path):
    file = tmp_path / "train.parquet"
    pq.write_table(pa.table({"text": ["a", None, ""], "label": [0, 1, 1]}), file)
    with pytest.raises(UsageError, match=r"column 'text' .* has no text in row 3"):
        read_own_texts(str(file), ["text"])
    pq.write_table(pa.table({"text": ["a", "", "", "b"], "label": [0, 1, 1, 0]}), file)
    found = read_own_texts(str(file), ["text"])
    assert sorted(found.train.sides[0] + found.test.sides[0]) == ["", "", "a", "b"]


@pytest.mark.parametrize(
    ("source", "wanted", "message"),
    [("mnist5k", ["text"], "is no table on disk"), ("mine.csv", ["a", "b", "c"], "3 columns")],
)
def test_columns_that_cannot_be_of_texts_are_refused(
    tmp_path, monkeypatch, source, wanted, message
):
    monkeypatch.chdir(tmp_path)
    _csv(tmp_path / "mine.csv", "a,b,c,label", [("a", "b", "c", "d")])
    with pytest.raises(UsageError, match=message):
        text_columns(source, wanted)

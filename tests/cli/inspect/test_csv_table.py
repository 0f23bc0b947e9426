"""A spreadsheet opens the sheet and computes nothing of it."""

import csv
import io

import numpy as np
import pytest

from tests.cli.inspect.test_combined import student
from tutelage_cli.inspect import csv_table
from tutelage_cli.inspect.combined import combined
from tutelage_cli.inspect.csv_table import csv_bytes, harmless


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1"])
def test_what_begins_like_a_formula_is_text(text) -> None:
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "cat", "1", "a=b", "cat/-1.png", "'=1"])
def test_other_texts_stay_as_they_are(text) -> None:
    assert harmless(text) == text


def test_the_sheet_is_csv_with_a_row_for_each_label_in_order() -> None:
    names = '=,"é'
    labels = combined(
        [student(names, "xyzx", [4, 3, 2, 1], [1, 1, 1, np.nan])],
        "loss",
        max_fpr=0.1,
        top=1,
    )
    content = csv_bytes(labels)
    assert content.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert [row["name"] for row in rows] == ["'=", ",", '"', "é"]
    assert [float(row["loss"]) for row in rows] == [4, 3, 2, 1]
    assert [row["weight"] for row in rows] == ["1", "1", "1", ""]
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4"]
    some = csv_bytes(labels, np.array([False, True, False, False])).decode("utf-8-sig")
    assert [row["rank"] for row in csv.DictReader(io.StringIO(some, newline=""))] == ["2"]


@pytest.mark.parametrize("only", [None, np.array([True, False, True, True, True])])
def test_the_sheet_does_not_depend_on_how_many_labels_are_written_at_a_time(
    monkeypatch, only
) -> None:
    one = student('a,=b"', "xyzxy", [4, np.inf, 2, 1, 0.1], [1, np.nan, 1, 0.5, 1 / 3])
    labels = combined([one], "loss", max_fpr=0.1, top=1)
    whole = csv_bytes(labels, only)
    monkeypatch.setattr(csv_table, "_BLOCK", 2)
    assert csv_bytes(labels, only) == whole
    assert whole.count(b"\r\n") == 1 + (5 if only is None else only.sum())

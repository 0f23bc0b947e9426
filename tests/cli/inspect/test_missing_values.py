"""In a table of one's own, what is missing is unknown: it is no sign of a wrong label."""

import json

import datasets
import pytest

from tests.trained import one_line, run
from tutelage_cli.inspect.own_table import read_own

ROWS = 40


def table(path, **columns):
    """Forty rows, half of them held out; losses rise, and labels are right but for row 1."""
    told = {
        "label": ["0"] * ROWS,
        "true": ["1" if n == 1 else "0" for n in range(ROWS)],
        "loss": [9 if n == 1 else 0.01 * n for n in range(ROWS)],
        "held_out": ["true" if n >= 20 else "false" for n in range(ROWS)],
    } | columns
    lines = [",".join(told)]
    lines += [",".join(map(str, row)) for row in zip(*told.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def inspected(file, *words):
    answer = run("inspect", file, "--max-fpr", "0.06", "--json", "--top", "50", *words)
    assert answer.code == 0, answer
    return json.loads(answer.out)


def test_a_missing_loss_accuses_nobody_stands_last_and_is_counted(tmp_path):
    loss = ["" if n in {3, 4} else (9 if n == 1 else 0.01 * n) for n in range(ROWS)]
    found = inspected(table(tmp_path / "t.csv", loss=loss))
    assert found["likely_wrong"] == 1
    assert [e["name"] for e in found["examples"]][-2:] == ["row 5", "row 6"]
    assert found["quality"]["wrong"] == 1
    assert found["quality"]["recall"] == found["auroc"] == 1
    assert "Of 2 labels the loss is missing: they count for nothing." in found["notes"]


def test_a_missing_loss_of_a_held_out_example_moves_no_threshold(tmp_path):
    loss: list[object] = [9 if n == 1 else 0.01 * n for n in range(ROWS)]
    whole = inspected(table(tmp_path / "t.csv", loss=loss))
    loss[30] = "NaN"
    found = inspected(table(tmp_path / "t.csv", loss=loss))
    assert (whole["held_out"], found["held_out"]) == ([20], [19])
    assert found["limits"] == whole["limits"]
    assert found["likely_wrong"] == 1
    assert any("1 held-out examples the loss is missing" in note for note in found["notes"])


def test_missing_weights_are_no_low_ones(tmp_path):
    weight = [0.1 if n == 1 else ("" if n == 2 else 1 - 0.005 * n) for n in range(ROWS)]
    found = inspected(table(tmp_path / "t.csv", weight=weight), "--by", "weight")
    assert found["examples"][0]["name"] == "row 3"
    assert found["examples"][-1]["name"] == "row 4"
    assert found["likely_wrong"] == 1


def test_rows_without_a_label_or_a_mark_are_counted(tmp_path):
    label = ["" if n in {2, 25} else "0" for n in range(ROWS)]
    held_out = ["true" if n >= 20 else ("" if n == 5 else "false") for n in range(ROWS)]
    found = inspected(table(tmp_path / "t.csv", label=label, held_out=held_out))
    assert (found["labels"], found["held_out"]) == (19, [19])
    file = tmp_path / "t.csv"
    assert (
        f"{file} has no label in rows 4, 27 (the header is row 1): left out." in found["notes"]
    )
    assert any("nothing under held_out in row 7" in note for note in found["notes"])


NOT_FINITE = ["inf", "-inf", "1e999", "1e39", "much", "1_0"]


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("column", ["loss", "weight"])
def test_what_is_not_finite_is_refused_by_row(tmp_path, column, value):
    values = [value if n == 3 else 0.5 for n in range(ROWS)]
    file = table(tmp_path / "t.csv", **{column: values})
    one_line(run("inspect", file), "row 5", repr(value), f"under {column}", "finite")


def test_classes_are_the_same_however_a_table_spells_their_numbers(tmp_path):
    label = ["n/a" if n == 3 else "1" for n in range(ROWS)]
    true = ["" if n == 2 else ("n/a" if n == 3 else "1.0") for n in range(ROWS)]
    own = read_own(table(tmp_path / "t.csv", label=label, true=true))
    assert own.true is not None
    assert [g == t for g, t in zip(own.given, own.true, strict=True)].count(False) == 1
    label = ["01" if n == 3 else "1" for n in range(ROWS)]
    [note] = read_own(table(tmp_path / "t.csv", label=label, true=["1"] * ROWS)).notes
    assert note == "'01', '1' are the same number, and are classes apart."


def test_numbers_of_a_column_that_names_its_classes_are_these_names(tmp_path):
    kinds = {name: datasets.Value("float32") for name in ("loss",)}
    kinds |= {
        "given": datasets.ClassLabel(names=["cat", "dog"]),
        "true": datasets.Value("string"),
    }
    rows = {"given": [0, 1, 1], "true": ["cat", "dog", "cat"], "loss": [0.1, 0.2, 0.3]}
    one = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    one.to_parquet(tmp_path / "t.parquet")
    own = read_own(tmp_path / "t.parquet")
    assert list(own.given) == ["cat", "dog", "dog"]


@pytest.mark.parametrize("column", ["true", "predicted"])
def test_numbers_beside_names_are_refused(tmp_path, column):
    file = table(tmp_path / "t.csv", **{"true": [""] * ROWS, column: ["cat"] * ROWS})
    one_line(run("inspect", file), "'0' for a class under given", f"'cat' under {column}")


def test_names_that_are_missing_or_come_twice_are_told_by_row(tmp_path):
    name = ["" if n == 3 else f"n{n}" for n in range(ROWS)]
    one_line(run("inspect", table(tmp_path / "t.csv", name=name)), "no name in row 5")
    name[3] = "n7"
    one_line(run("inspect", table(tmp_path / "t.csv", name=name)), "n7 twice in rows 5, 9")

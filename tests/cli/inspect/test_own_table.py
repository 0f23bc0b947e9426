"""A table from a loop of one's own is inspected like a run; sentences are shown."""

import csv
import json
import subprocess
import sys

import pytest
from sklearn.metrics import roc_auc_score

from tests.trained import one_line, run

SENTENCES = ["good, really good", "=bad()", "a <b>fine</b> film", "dull"]


def table(path, **columns) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def texts(path) -> None:
    """Forty sentences, of which the second is doubted most, beside twenty held-out ones."""
    rows = 60
    table(
        path,
        text=[SENTENCES[n] if n < 4 else f"sentence {n}" for n in range(rows)],
        label=["pos" if n % 2 else "neg" for n in range(rows)],
        predicted=["neg"] * rows,
        true=["neg" if n == 1 else ("pos" if n % 2 else "neg") for n in range(rows)],
        loss=[9 if n == 1 else 0.01 * n for n in range(rows)],
        held_out=["true" if n >= 40 else "false" for n in range(rows)],
    )


def test_sentences_are_shown_and_the_wrong_one_is_accused(tmp_path) -> None:
    texts(tmp_path / "films.csv")
    answer = run(
        "inspect", tmp_path / "films.csv", "--max-fpr", "0.05", "--top", "50", "--json"
    )
    assert answer.code == 0, answer
    found = json.loads(answer.out)
    assert found["run"] is None
    assert found["held_out"] == [20]
    assert found["labels"] == 40
    assert found["likely_wrong"] == 1
    assert found["examples"][0]["text"] == "=bad()"
    assert found["quality"]["precision"] == found["quality"]["recall"] == 1
    out = tmp_path / "films-inspection"
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "=bad()" in page
    assert "a &lt;b&gt;fine&lt;/b&gt; film" in page
    with (out / "likely-wrong.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["text"] for row in csv.DictReader(file)] == ["'=bad()"]


def test_a_long_sentence_is_cut_in_the_terminal_alone(tmp_path) -> None:
    long = "word " * 100
    table(tmp_path / "t.csv", sentence=[long, "b"], label=["x", "y"], weight=[0.1, 0.9])
    answer = run("inspect", tmp_path / "t.csv")
    assert answer.code == 0, answer
    assert long.strip() not in answer.out
    assert long.strip() in (tmp_path / "t-inspection" / "index.html").read_text("utf-8")


WRONG = {
    "no labels": ({"loss": [1, 2]}, "given or label"),
    "nothing to judge by": ({"label": ["a", "b"]}, "loss or weight"),
    "no numbers": ({"label": ["a", "b"], "loss": ["x", 1]}, "something else than numbers"),
    "all the same": ({"label": ["a", "b"], "weight": [1, 1]}, "neither weight nor loss"),
    "a strange mark": (
        {"label": ["a", "b"], "loss": [1, 2], "held_out": ["perhaps", "true"]},
        "'perhaps'",
    ),
    "all held out": ({"label": ["a", "b"], "loss": [1, 2], "held_out": [1, 1]}, "alone"),
    "a name twice": ({"label": ["a", "b"], "loss": [1, 2], "name": ["n", "n"]}, "twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_table_of_examples_is_told(tmp_path, name) -> None:
    columns, part = WRONG[name]
    table(tmp_path / "t.csv", **columns)
    one_line(run("inspect", tmp_path / "t.csv"), part)


def test_a_table_has_no_arms_and_another_file_is_no_table(tmp_path) -> None:
    texts(tmp_path / "t.csv")
    one_line(run("inspect", tmp_path / "t.csv", "--arm", "loss"), "no arms")
    (tmp_path / "t.txt").write_text("x")
    one_line(run("inspect", tmp_path / "t.txt"), "t.txt", ".parquet or .csv")


def test_what_is_not_known_to_be_right_is_not_counted_as_wrong(tmp_path) -> None:
    # true lacks some, so that pandas would write 1.0 where given has 1
    true = ["1.0" if n == 1 else ("" if n == 2 else "0.0") for n in range(40)]
    loss = [9 if n in {1, 2} else 0.01 * n for n in range(40)]
    held_out = [n >= 20 for n in range(40)]
    file = tmp_path / "t.csv"
    table(file, label=[0] * 40, true=true, loss=loss, held_out=held_out)
    answer = run("inspect", file, "--max-fpr", "0.05", "--json")
    assert answer.code == 0, answer
    found = json.loads(answer.out)
    assert found["likely_wrong"] == 2
    assert (found["quality"]["wrong"], found["quality"]["precision"]) == (1, 1)
    assert found["auroc"] == 1
    assert any("Of 1 labels" in note for note in found["notes"])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("values", [(1, 1, 1), (0, 1, 2)])
def test_labels_of_equal_weight_count_half_in_the_auroc(tmp_path, turned, values) -> None:
    weights = [values[row % 3] for row in range(199)] + [0.5]
    rows = [("b" if row < 60 else "a", "a", w) for row, w in enumerate(weights)]
    with (tmp_path / "own.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("given", "true", "weight"), *rows[:: -1 if turned else 1]])
    answer = run("inspect", tmp_path / "own.csv", "--json")
    wanted = roc_auc_score([given == "b" for given, *_ in rows], [-w for *_, w in rows])
    assert json.loads(answer.out)["auroc"] == pytest.approx(wanted)


def test_a_table_of_losses_and_weights_is_inspected_without_pytorch(tmp_path) -> None:
    rows = range(40)
    table(
        tmp_path / "films.csv",
        text=[f"sentence {n}" for n in rows],
        label=["pos" if n % 2 else "neg" for n in rows],
        loss=[0.1 * n for n in rows],
        weight=[1 - 0.01 * n for n in rows],
        held_out=[n % 4 == 0 for n in rows],
    )
    code = (
        "import sys; from tutelage_cli.cli import main\n"
        "code = main(sys.argv[1:])\n"
        "heavy = {'torch', 'scipy', 'sklearn'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, "inspect", tmp_path / "films.csv"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert (tmp_path / "films-inspection" / "examples.csv").exists()

"""``tutelage inspect`` of a run: what is printed and written, and what is refused."""

import csv
import json
import random
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.hostile import changed_bytes
from tests.trained import found, one_line, run, students
from tutelage_cli.report.distrust import least_trusted


def look(folder, *words):
    """What is told as JSON of a run."""
    answer = run("inspect", folder, *words, "--json")
    assert answer.code == 0, answer
    return json.loads(answer.out)


@pytest.fixture
def copy(noisy, tmp_path):
    """A run that may be changed."""
    shutil.copytree(noisy, tmp_path / "run")
    return tmp_path / "run"


def test_a_student_of_one_seed_is_told_as_its_table_says(noisy, tmp_path) -> None:
    words = ["--seed", "1", "--by", "weight", "--max-fpr", "0.1", "--top", "3"]
    told = look(noisy, *words, "--out", tmp_path / "out")
    student = noisy / "students" / "margin-loss-seed1"
    table = pq.read_table(student / "examples.parquet").to_pydict()
    clean = np.array(pq.read_table(student / "held-out.parquet")["weight"])
    weight, given, true = (np.array(table[k]) for k in ("weight", "given", "true"))
    flagged = np.array([(1 + (clean <= w).sum()) / (1 + len(clean)) <= 0.1 for w in weight])
    assert told["students"] == ["margin-loss, seed 1"]
    assert told["labels"] == len(weight) == 36
    assert told["likely_wrong"] == flagged.sum()
    wrong = given != true
    assert told["quality"]["hits"] == (flagged & wrong).sum()
    assert told["quality"]["wrong"] == wrong.sum()
    order = np.lexsort((-np.array(table["loss"]), weight))
    assert [e["name"] for e in told["examples"]] == [table["name"][n] for n in order[:3]]
    assert told["examples"][0]["weight"] == pytest.approx(weight.min())
    past = pq.read_table(student / "history.parquet")["losses"].to_pylist()
    assert told["examples"][0]["past_losses"] == pytest.approx(past[order[0]])
    assert told["epochs"] == [1, 2, 3]


def test_files_hold_all_labels_and_pictures_and_the_table_names_no_formula(copy) -> None:
    told = look(copy, "--top", "500")
    assert set(told["files"]) == {"examples", "likely_wrong", "page"} or any(
        "No list" in note for note in told["notes"]
    )
    text = (copy / "inspection" / "examples.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == told["labels"] > 36
    assert {row["given"] for row in rows} == {"'=cat", "dog", "emu"}
    page = (copy / "inspection" / "index.html").read_text(encoding="utf-8")
    assert page.count('<img src="data:') == told["labels"]
    assert "<script src" not in page


def test_what_is_printed_says_what_the_rule_is_and_how_good_the_list_was(copy) -> None:
    answer = run("inspect", copy, "--max-fpr", "0.2", "--top", "4")
    assert answer.code == 0, answer
    text = " ".join(answer.out.split())
    for part in (
        "Reading",
        "Likely wrong:",
        "20% of 12 held-out",
        "precision",
        "AUROC",
        "Page:",
    ):
        assert part in text
    quiet = run("inspect", copy, "--max-fpr", "0.2", "--top", "4", "--quiet")
    assert "Reading" not in quiet.out
    assert quiet.out in answer.out
    assert "\x1b" not in answer.out
    told = run("inspect", copy, "--json")
    assert json.loads(told.out)
    assert "Reading" in told.err


def test_too_few_held_out_examples_give_a_table_without_a_list(copy) -> None:
    look(copy, "--max-fpr", "0.2")
    assert (copy / "inspection" / "likely-wrong.csv").exists()
    told = look(copy)
    assert told["likely_wrong"] is None
    assert any("12 held-out examples allow no share below 0.077" in n for n in told["notes"])
    assert not (copy / "inspection" / "likely-wrong.csv").exists()


def test_a_run_of_an_earlier_release_says_how_to_get_the_list(copy) -> None:
    for student in students(copy):
        for name in ("held-out.parquet", "history.parquet"):
            (student / name).unlink()
    told = look(copy, "--max-fpr", "0.2")
    assert told["likely_wrong"] is None
    assert told["epochs"] == []
    assert any("result.json" in n and f"--resume {copy}" in n for n in told["notes"])
    for student in students(copy):
        (student / "result.json").unlink()
    assert run("train", "--resume", copy).code == 0
    assert look(copy, "--max-fpr", "0.2")["likely_wrong"] is not None


def test_an_unfinished_run_is_told_of_as_far_as_it_is(copy) -> None:
    (copy / "students" / "margin-loss-seed1" / "result.json").unlink()
    told = look(copy)
    assert told["students"] == ["margin-loss, seed 0"]
    assert any("3 of its 4 students" in note for note in told["notes"])
    one_line(
        run("inspect", copy, "--seed", "1", "--arm", "margin-loss"), "no finished", "--resume"
    )
    for student in students(copy):
        (student / "result.json").unlink(missing_ok=True)
    one_line(run("inspect", copy), "no finished student", f"--resume {copy}")


def test_a_run_that_weighs_nothing_is_judged_by_loss(copy) -> None:
    told = look(copy, "--arm", "untaught", "--max-fpr", "0.2")
    assert told["by"] == "loss"
    one_line(run("inspect", copy, "--arm", "untaught", "--by", "weight"), "loss", "untaught")


def test_wrong_use_is_told(copy, tmp_path) -> None:
    one_line(run("inspect", tmp_path / "nowhere"), "nowhere")
    one_line(run("inspect", tmp_path), "settings.json")
    one_line(run("inspect", copy, "--arm", "marginloss"), "Did you mean 'margin-loss'?")
    one_line(run("inspect", copy, "--seed", "2"), "0 to 1")
    one_line(run("inspect", copy, "--top", "0"), "top", "at least 1")
    for share in ("0", "1", "nan", "-0.1"):
        one_line(run("inspect", copy, f"--max-fpr={share}"), "--max-fpr")
    (tmp_path / "file").write_text("")
    one_line(run("inspect", copy, "--out", tmp_path / "file"), "file", "--out")


def test_pictures_that_have_moved_or_changed_are_left_out(copy, animals, tmp_path) -> None:
    settings = json.loads((copy / "settings.json").read_text())
    (copy / "settings.json").write_text(json.dumps(settings | {"data": str(tmp_path / "gone")}))
    told = look(copy)
    assert any("No pictures" in note and "--data" in note for note in told["notes"])
    page = copy / "inspection" / "index.html"
    assert '<img src="data:' not in page.read_text(encoding="utf-8")
    shutil.copytree(animals, tmp_path / "moved")
    told = look(copy, "--data", tmp_path / "moved", "--top", "500")
    whole = page.read_text(encoding="utf-8").count('<img src="data:')
    assert whole == told["labels"]
    first = tmp_path / "moved" / "emu" / "01.png"
    shutil.copy(tmp_path / "moved" / "emu" / "02.png", first)
    look(copy, "--data", tmp_path / "moved", "--top", "500")
    assert page.read_text(encoding="utf-8").count('<img src="data:') < whole


@pytest.mark.parametrize("name", ["examples.parquet", "held-out.parquet", "history.parquet"])
def test_no_content_of_a_students_tables_does_harm(copy, name, monkeypatch) -> None:
    monkeypatch.setattr("tutelage_cli.inspect.page.page", lambda *_: Page())
    file = copy / "students" / "margin-loss-seed0" / name
    whole, draw, refused = file.read_bytes(), random.Random(0), 0
    for _ in range(60):
        file.write_bytes(changed_bytes(whole, draw))
        answer = run("inspect", copy, "--max-fpr", "0.2")
        if answer.code:
            one_line(answer, file, "is damaged", "result.json")
            refused += 1
    assert 5 < refused <= 60


class Page:
    """In place of a page, which takes long to draw."""

    html, notes = "", ()


def test_a_look_changes_nothing_of_the_run(copy) -> None:
    before = found(copy)
    look(copy)
    after = found(copy)
    assert {k: v for k, v in after.items() if not k.startswith("inspection")} == before


def test_a_picture_opens_its_file(copy, animals) -> None:
    told = look(copy, "--top", "2")
    page = (copy / "inspection" / "index.html").read_text(encoding="utf-8")
    addresses = re.findall(r'<a href="(file:[^"]+)"[^>]*><img', page)
    files = [Path(unquote(address.removeprefix("file://"))) for address in addresses]
    assert files == [animals / of["name"] for of in told["examples"]]
    assert all(file.is_file() for file in files)


def test_the_report_has_the_order_of_the_inspection(copy) -> None:
    words = ("--arm", "margin-loss", "--seed", "0", "--by", "weight")
    told = look(copy, *words, "--top", "24")
    table = pq.read_table(copy / "students" / "margin-loss-seed0" / "examples.parquet")
    names = dict(zip(table["id"].to_pylist(), table["name"].to_pylist(), strict=True))
    report = (copy / "report.html").read_text(encoding="utf-8")
    shown = re.findall(r'alt="Training example (\d+), labelled', report)
    assert [names[int(number)] for number in shown] == [of["name"] for of in told["examples"]]
    assert f"tutelage inspect RUN {' '.join(words)}" in report
    weights = np.array([0.5, np.nan, 0.0, 0.0, 0.5])
    assert least_trusted(weights, np.array([1.0, 0, 1, 2, 3])).tolist() == [1, 3, 2, 4, 0]


def test_what_is_flagged_says_how_many_are_right_and_wrong(copy) -> None:
    answer = run("inspect", copy, "--by", "loss", "--max-fpr", "0.08", "--seed", "0")
    told = look(copy, "--by", "loss", "--max-fpr", "0.08", "--seed", "0")
    text = " ".join(answer.out.split())
    assert "Flagged: likely wrong" in text
    most = 0.08 * told["labels"]
    said = f"So of these {told['likely_wrong']} about {most:.0f} or fewer are right"
    assert (said in text) == (told["likely_wrong"] > most)
    assert told["flagged_right_between"] is None
    assert told["fix"] is None

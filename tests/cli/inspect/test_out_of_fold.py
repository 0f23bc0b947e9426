"""Labels are inspected by out-of-fold predictions, of a run's folds or of a table."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch

from tests.cli.inspect.test_own_table import table
from tests.trained import found, of_version, one_line, run, unchecked, undrawn
from tutelage.crossfit import label_errors, stratified_folds
from tutelage.randomness import mixed_seed
from tutelage_cli.inspect.out_of_fold import _learned

FLAGS = [
    *("--controls", "pruned", "--teacher", "focal", "--epochs", "9", "--seeds", "2"),
    *("--batch-size", "16", "--noise", "uniform:0.4", "--jobs", "1", "--limit", "150"),
]


@pytest.fixture(scope="session")
def folded(tmp_path_factory):
    """A run on feature vectors of three classes, some of them wrong, with folds."""
    place = tmp_path_factory.mktemp("folded")
    generator = np.random.default_rng(0)
    labels = np.arange(260) % 3
    vectors = generator.normal(size=(260, 4)) + 2 * np.eye(4)[labels]
    for name, rows in {"data": slice(0, 220), "checked": slice(220, 260)}.items():
        np.savez(place / f"{name}.npz", features=vectors[rows], label=labels[rows])
    data, checked = place / "data.npz", place / "checked.npz"
    with unchecked(), undrawn():
        answer = run("train", data, "--held-out-from", checked, *FLAGS, "--out", place / "run")
    assert answer.code == 0, answer
    return place / "run"


@pytest.fixture
def copy(folded, tmp_path):
    """The run, to be changed."""
    shutil.copytree(folded, tmp_path / "run")
    return tmp_path / "run"


def look(folder, *words):
    answer = run("inspect", folder, *words, "--json")
    assert answer.code == 0, answer
    return json.loads(answer.out)


def by_hand(folder, seed: int, draws: int = 32):
    """From what the folds have left, the probability that each label is wrong, by name."""
    import pyarrow.parquet as pq

    student = folder / "students" / f"untaught-seed{seed}"
    train, checked = (
        pq.read_table(student / f"{name}.parquet").to_pydict()
        for name in ("examples", "held-out")
    )
    given = torch.tensor(train["given"])
    fold = stratified_folds(given, 5, seed=mixed_seed(12, seed))
    p, said = torch.zeros(len(given), 3), []
    for number in range(5):
        with np.load(
            folder / "folds" / f"folds-seed{seed}-{number}" / "out-of-fold.npz"
        ) as found:
            p[fold == number] = torch.from_numpy(found["train"])
            said.append(torch.from_numpy(found["checked"]))
    right = torch.tensor(checked["given"])
    mine = stratified_folds(right, 5, seed=0)  # by one student each, as p
    own = torch.stack(said)[mine, torch.arange(len(mine))]
    errors = label_errors(p, given, own, right, draws=draws)
    return dict(zip(train["name"], errors.probabilities.tolist(), strict=True))


def test_each_label_has_the_probability_that_its_folds_give_it(folded, tmp_path) -> None:
    told = look(folded, "--seed", "1", "--top", "500", "--out", tmp_path / "out")
    want = by_hand(folded, 1)
    assert told["by"] == "out-of-fold"
    assert told["arm"] is None
    assert told["students"] == ["folds, seed 1"]
    found = {one["name"]: one["probability_wrong"] for one in told["examples"]}
    assert found == pytest.approx(want)
    order = [one["probability_wrong"] for one in told["examples"]]
    assert order == pytest.approx(sorted(want.values(), reverse=True))
    assert told["likely_wrong"] == sum(value > 0.5 for value in want.values())
    low, high = told["likely_wrong_between"]
    assert 0 <= low < high <= told["likely_wrong"]
    least, most = told["all_wrong_between"]
    assert least <= told["quality"]["wrong"] <= most
    assert told["auroc"] > 0.7


def test_seeds_are_put_together_and_all_files_say_so(folded, tmp_path) -> None:
    answer = run("inspect", folded, "--top", "4", "--out", tmp_path / "out")
    assert answer.code == 0, answer
    text = " ".join(answer.out.split())
    for part in ("P(wrong)", "more probably wrong than right", "right (90% probability)"):
        assert part in text
    told = look(folded, "--out", tmp_path / "out", "--top", "1000")
    parts = [by_hand(folded, seed) for seed in (0, 1)]
    one = told["examples"][0]
    seeds = [part[one["name"]] for part in parts if one["name"] in part]
    if one["students"] == len(seeds):  # the label is the same in both
        assert one["probability_wrong"] == pytest.approx(np.mean(seeds))
    with (tmp_path / "out" / "likely-wrong.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == told["likely_wrong"]
    assert all(float(row["probability_wrong"]) > 0.5 for row in rows)
    assert "P(wrong)" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_an_arm_or_another_way_is_still_asked_for(folded, noisy, tmp_path) -> None:
    words = ["--out", tmp_path / "out", "--max-fpr", "0.2"]
    assert look(folded, "--by", "loss", *words)["by"] == "loss"
    assert look(folded, "--arm", "untaught", *words)["arm"] == "untaught"
    one_line(run("inspect", noisy, "--by", "out-of-fold"), "no out-of-fold", "cross-fitted")
    one_line(run("inspect", folded, "--by", "out-of-fold", "--arm", "focal"), "leave out --arm")


def test_folds_that_are_not_there_or_damaged(copy) -> None:
    for fold, part in ((2, "out-of-fold.npz is damaged"), (0, "folds-seed1-0, folds-seed1-2")):
        file = copy / "folds" / f"folds-seed1-{fold}" / "out-of-fold.npz"
        file.write_bytes(file.read_bytes()[:200])
        one_line(run("inspect", copy), part, "Delete", f"--resume {copy}")
    (file.parent / "result.json").unlink()
    assert look(copy, "--max-fpr", "0.2")["by"] != "out-of-fold"
    assert look(copy, "--seed", "0")["by"] == "out-of-fold"


def test_two_kinds_of_folds_that_say_the_same_give_the_same(copy) -> None:
    for folder in list((copy / "folds").glob("folds-seed*")):
        shutil.copytree(folder, folder.with_name(f"corrected-{folder.name}"))
    told = look(copy, "--seed", "1", "--top", "500")
    assert told["students"] == ["folds and corrected-folds, seed 1"]
    found = {one["name"]: one["probability_wrong"] for one in told["examples"]}
    assert found == pytest.approx(by_hand(copy, 1, draws=16))


def test_distilled_students_say_which_labels_are_wrong_and_the_others_how_many(copy) -> None:
    for folder in list((copy / "folds").glob("folds-seed1-*")):
        other = folder.with_name(f"distilled-{folder.name}")
        shutil.copytree(folder, other)
        file = other / "out-of-fold.npz"
        with np.load(file) as stored:
            parts = dict(stored)
        for name in ("train", "checked"):  # as students of surer targets are
            raised = parts[name] ** 1.3
            parts[name] = (raised / raised.sum(1, keepdims=True)).astype(np.float32)
        np.savez(file, **parts)
    plain = by_hand(copy, 1)
    told = look(copy, "--by", "out-of-fold", "--seed", "1", "--top", "500")
    assert told["students"] == ["distilled-folds, seed 1"]
    found = {one["name"]: one["probability_wrong"] for one in told["examples"]}
    assert sum(found.values()) == pytest.approx(sum(plain.values()), rel=1e-3)
    assert found != pytest.approx(plain, abs=1e-3)


def predictions(path, held_out: int = 30, **changed) -> None:
    """A hundred rows; the labels of the first five contradict what is predicted."""
    generator = np.random.default_rng(1)
    right = np.arange(100) % 2
    sure = np.clip(generator.normal(0.85, 0.05, 100), 0.55, 0.99)
    cat = np.where(right == 0, sure, 1 - sure)
    label = ["cat" if (y == 0) != (n < 5) else "dog" for n, y in enumerate(right)]
    columns = {
        "label": label,
        "true": ["cat" if y == 0 else "dog" for y in right],
        "held_out": [n >= 100 - held_out for n in range(100)],
        "probability_cat": cat.round(4).tolist(),
        "probability_dog": (1 - cat).round(4).tolist(),
    }
    table(path, **(columns | changed))


@pytest.mark.parametrize("held_out", [0, 30])
def test_a_table_of_predictions_needs_neither_loss_nor_weight(tmp_path, held_out) -> None:
    predictions(tmp_path / "t.csv", held_out)
    told = look(tmp_path / "t.csv", "--top", "100")
    assert told["by"] == "out-of-fold"
    assert told["labels"] == 100 - held_out
    assert {one["name"] for one in told["examples"][:5]} == {f"row {n}" for n in range(2, 7)}
    assert told["auroc"] == 1
    assert told["examples"][0]["predicted"] != told["examples"][0]["given"]
    low, high = told["all_wrong_between"]
    assert low <= 5 <= high


WRONG = {
    "a class without a column": ({"label": ["cat"] * 99 + ["emu"]}, "probability_emu"),
    "no number": ({"probability_cat": ["x"] * 100}, "allowed: 0..1"),
    "no distribution": ({"probability_cat": [0.9] * 100}, "sum to"),
}


@pytest.mark.parametrize("name", WRONG)
def test_predictions_that_are_none_are_told(tmp_path, name) -> None:
    changed, part = WRONG[name]
    predictions(tmp_path / "t.csv", **changed)
    one_line(run("inspect", tmp_path / "t.csv"), part)


def test_a_table_without_predictions_says_what_it_takes(tmp_path) -> None:
    table(tmp_path / "t.csv", label=["a", "b"], loss=[1, 2])
    one_line(run("inspect", tmp_path / "t.csv", "--by", "out-of-fold"), "probability_CLASS")


def test_predictions_of_an_earlier_version_are_inspected_as_they_are(folded, copy) -> None:
    want = look(folded, "--top", "500", "--out", copy.parent / "out")
    of_version(copy, 3, seeds=(0, 1))
    assert look(copy, "--top", "500")["examples"] == want["examples"]


def test_predictions_that_may_come_from_students_that_saw_the_labels_are_refused(copy) -> None:
    of_version(copy, seeds=(0, 1))
    parts = "10 of 18 students of folds", "another version", "--resume", "by --by loss"
    one_line(run("inspect", copy), *parts)
    assert look(copy, "--by", "loss", "--max-fpr", "0.2")["by"] == "loss"


@pytest.mark.usefixtures("report_in_a_word")
def test_a_seed_that_is_finished_keeps_its_folds_of_another_version(copy) -> None:
    of_version(copy, 3, seeds=(0, 1))
    (copy / "students" / "pruned-seed1" / "result.json").unlink()
    answer = run("train", "--resume", copy)
    one_line(answer, "Delete these folders in", "folds-seed1-0", "folds-seed1-4")
    assert "seed0" not in answer.err
    before = found(copy / "folds")
    for folder in list((copy / "folds").glob("folds-seed1-*")):
        shutil.rmtree(folder)
    assert run("train", "--resume", copy).code == 0
    after = found(copy / "folds")
    changed = {name.split("/")[0] for name in after if after[name] != before.get(name)}
    assert changed == {f"folds-seed1-{fold}" for fold in range(5)}
    assert look(copy, "--max-fpr", "0.2")["by"] == "out-of-fold"


def test_folds_that_have_learned_nothing_are_not_gone_by(copy) -> None:
    for file in (copy / "folds").glob("folds-seed*/out-of-fold.npz"):
        with np.load(file) as found:
            content = dict(found)
        flat = {k: np.full_like(content[k], 1 / 3) for k in ("train", "checked")}
        np.savez(file, **(content | flat))
    told = look(copy, "--max-fpr", "0.2")
    assert told["by"] != "out-of-fold"
    assert any("have learned less than half" in note for note in told["notes"])
    assert look(copy, "--by", "out-of-fold")["by"] == "out-of-fold"


def test_how_much_folds_have_learned_is_a_share_of_what_the_untaught_student_has() -> None:
    right, p = torch.tensor([0, 1]), torch.tensor([[0.8, 0.2], [0.4, 0.6]])
    gain = np.log(2) + (np.log(0.8) + np.log(0.6)) / 2
    assert _learned([p], right, np.array([0.3, 0.3])) == pytest.approx(gain / (np.log(2) - 0.3))
    assert _learned([p], right, np.array([0.9, 0.9])) == float("inf")
    assert _learned([1 - p], right, np.array([0.3, 0.3])) == 0

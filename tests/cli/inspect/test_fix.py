"""``tutelage inspect --fix``: the data again without labels likely wrong, and nothing else."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.trained import found, one_line, pictures, run

pytestmark = pytest.mark.usefixtures("report_in_a_word")
QUICK = ["--epochs", "3", "--held-out", "12", "--batch-size", "8", "--jobs", "1"]
QUICK += ["--controls", "none", "--teacher", "margin-loss"]
LOOK = ["--by", "loss", "--max-fpr", "0.35", "--arm", "untaught"]
CLASSES = ("cat", "dog", "emu")
N = 60
GIVEN = [CLASSES[(row + (row < 8)) % 3] for row in range(N)]
"""labels of rows 0 to 7 are wrong"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def vectors() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, 5)) + 3 * np.eye(5)[np.arange(N) % 3]


def texts() -> list[str]:
    return [f"{['so', 'a', 'the'][n % 3]} {n % 3} =1+{n}\nfilm, by {n}" for n in range(N)]


def table(file: str, columns: dict[str, list]) -> str:
    with Path(file).open("w", newline="", encoding="utf-8") as rows:
        csv.writer(rows).writerows([[*columns], *zip(*columns.values(), strict=True)])
    return file


def trained(data: str, *flags: str, seeds: int = 1) -> dict[str, bytes]:
    """Train a run; returns what the data hold."""
    answer = run("train", data, *QUICK, "--seeds", seeds, *flags, "--out", "run")
    assert answer.code == 0, answer
    place = Path(data)
    return found(place) if place.is_dir() else {data: place.read_bytes()}


def fixed(by: str = "drop", *words: str, out: str = "fixed") -> dict:
    """Fix the run; returns what is told as JSON."""
    answer = run("inspect", "run", *LOOK, "--fix", out, "--fix-by", by, *words, "--json")
    assert answer.code == 0, answer
    told = json.loads(answer.out)
    assert told["likely_wrong"] == told["fix"]["flagged"] > 0
    return told["fix"]


def flagged() -> dict[str, dict[str, str]]:
    text = Path("run/inspection/likely-wrong.csv").read_text(encoding="utf-8-sig")
    return {row["name"]: row for row in csv.DictReader(text.splitlines())}


def rows_of(file: str) -> list[dict]:
    if file.endswith(".parquet"):
        return pq.read_table(file).to_pylist()
    with Path(file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def trains(told: dict) -> None:
    """The command that was told trains on the data that were written."""
    words = shlex.split(told["train"])
    assert words[:2] == ["tutelage", "train"]
    answer = run(*words[1:], "--out", "again")
    assert answer.code == 0, answer
    once, again = (
        json.loads(Path(of, "summary.json").read_text(encoding="utf-8"))["data"]
        for of in ("run", "again")
    )
    assert again["classes"] == once["classes"]
    assert again["test"] == once["test"]
    assert again["train"] + again["held_out"] == told["left"]
    assert again["train"] == once["train"] - told["dropped"]


def test_a_folder_of_pictures_becomes_a_listing_that_trains(tmp_path):
    pictures(Path("animals"))
    before = trained("animals", seeds=2)
    for by in ("drop", "replace"):
        told = fixed(by, out=by)
        wrong = flagged()
        rows = rows_of(f"{by}/train.csv")
        assert [*rows[0]] == ["path", "label"]
        labels = {
            Path(by, row["path"]).resolve().relative_to(tmp_path / "animals").as_posix(): row[
                "label"
            ]
            for row in rows
        }
        assert len(labels) == len(rows) == told["left"]
        assert bool(labels.keys() & wrong.keys()) == (by == "replace")
        for name, label in labels.items():
            own = Path(name).parent.name
            assert label == (wrong[name]["predicted"] if name in wrong else own)
        tested = rows_of(f"{by}/test.csv")
        assert len(tested) == 12
        assert all(row["label"] == Path(row["path"]).parent.name for row in tested)
    assert found(Path("animals")) == before
    trains(told)


def test_a_test_folder_stays_the_test_part():
    pictures(Path("animals/train"))
    pictures(Path("animals/test"), count=3, seed=1)
    trained("animals")
    told = fixed()
    assert {row["path"].split("/")[-3] for row in rows_of("fixed/test.csv")} == {"test"}
    trains(told)


def test_a_listing_keeps_its_columns_and_finds_its_pictures(tmp_path):
    pictures(Path("animals"))
    paths = [f"animals/{c}/{n:02}.png" for c in CLASSES for n in range(20)]
    table(
        "list.csv",
        {"file": paths, "of": [f"{p}, it" for p in paths], "class": [p[8:11] for p in paths]},
    )
    before = trained("list.csv", seeds=2)
    told = fixed(out="else/where")
    rows, wrong = rows_of("else/where/train.csv"), flagged()
    assert [*rows[0]] == ["file", "of", "class"]
    for row in rows:
        assert Path("else/where", row["file"]).resolve() == tmp_path / row["of"][:-4]
        assert row["of"][:-4] not in wrong
    assert Path("list.csv").read_bytes() == before["list.csv"]
    trains(told)


@pytest.mark.parametrize("by", ["drop", "replace"])
def test_a_csv_of_texts_keeps_every_other_value_as_it_is(by):
    said = texts()
    table("t.csv", {"note": ["x,\r\ny"] * N, "text": said, "label": GIVEN})
    trained("t.csv")
    told = fixed(by)
    rows, wrong = rows_of("fixed/train.csv"), flagged()
    assert len(rows) == told["left"]
    for row in rows:
        number = said.index(row["text"])
        name = f"row {2 + number * 3}" if f"row {2 + number * 3}" in wrong else None
        assert row["note"] == "x,\r\ny"
        if name is None and row["label"] != GIVEN[number]:
            assert row["label"] in {of["predicted"] for of in wrong.values()}
    changed = sum(row["label"] != GIVEN[said.index(row["text"])] for row in rows)
    assert changed == told["replaced"]
    assert told["dropped"] == (len(wrong) if by == "drop" else 0)
    assert told["replaced"] + told["kept"] == (len(wrong) if by == "replace" else 0)
    trains(told)


def test_parquet_keeps_its_schema():
    metadata = {
        "info": {"features": {"label": {"names": list(CLASSES), "_type": "ClassLabel"}}}
    }
    schema = pa.schema([("n", pa.int16()), ("text", pa.string()), ("label", pa.int64())])
    schema = schema.with_metadata({"huggingface": json.dumps(metadata)})
    numbers = [CLASSES.index(word) for word in GIVEN]
    stored = pa.table([list(range(N)), texts(), numbers], schema=schema)
    Path("t").mkdir()
    pq.write_table(stored.slice(0, 25), "t/train-0.parquet")
    pq.write_table(stored.slice(25), "t/train-1.parquet")
    trained("t")
    told = fixed("replace")
    assert pq.read_schema("fixed/train.parquet").equals(schema, check_metadata=True)
    rows = rows_of("fixed/train.parquet")
    changed = {row["n"] for row in rows if row["label"] != numbers[row["n"]]}
    assert len(changed) == told["replaced"]
    assert {row["n"] for row in rows} | {row["n"] for row in rows_of("fixed/test.parquet")} == {
        *range(N)
    }
    trains(told)


def test_features_of_an_array_keep_their_ids():
    np.save("x.npy", vectors())
    order = np.random.default_rng(1).permutation(N).tolist()
    table("y.csv", {"id": [n + 1 for n in order], "label": [GIVEN[n] for n in order]})
    trained("x.npy", "--labels-from", "y.csv")
    told = fixed()
    arrays, wrong = np.load("fixed/features.npz"), flagged()
    assert all(name.startswith("id ") for name in wrong)
    names = arrays["name"].tolist()
    assert not wrong.keys() & set(names)
    for name, vector, label in zip(names, arrays["features"], arrays["labels"], strict=True):
        number = int(name.removeprefix("id ")) - 1
        assert np.allclose(vector, vectors()[number])
        assert label == GIVEN[number]
    assert shlex.split(told["train"])[2] == "fixed/features.npz"
    trains(told)


def test_features_of_parquet_and_labels_of_a_file_beside_them():
    pq.write_table(
        pa.table({"x": vectors().tolist(), "label": [CLASSES[n % 3] for n in range(N)]}),
        "x.parquet",
    )
    table("seen.csv", {"id": [*range(N)], "seen": GIVEN})
    trained("x.parquet", "--labels-from", "seen.csv", "--label-column", "seen")
    told = fixed("replace")
    assert "--labels-from" not in told["train"]
    wrong = flagged()
    values = {tuple(v): n for n, v in enumerate(vectors().tolist())}
    for row in rows_of("fixed/train.parquet"):
        number = values[tuple(row["x"])]
        name = f"row {number + 2}"
        judged = pq.read_table("run/students/untaught-seed0/examples.parquet")["name"]
        if name in wrong:
            assert row["label"] == wrong[name]["predicted"]
        elif name in judged.to_pylist():
            assert row["label"] == GIVEN[number]
    assert told["right"] is not None
    trains(told)


def test_digits_with_drawn_noise_are_written_as_pictures():
    answer = run("train", "mnist5k", "--limit", "150", *QUICK, "--seeds", "2", "--out", "run")
    assert answer.code == 0, answer
    words = ("inspect", "run", *LOOK, "--fix", "fixed")
    one_line(run(*words), "another label for each seed", "--seed 0")
    told = fixed("drop", "--seed", "0")
    assert "--noise" not in told["train"]
    table = pq.read_table("fixed/train.parquet")
    assert len(table) == told["left"] == 4000 - told["flagged"]
    assert len(pq.read_table("fixed/test.parquet")) == 1000
    examples = pq.read_table("run/students/untaught-seed0/examples.parquet").to_pylist()
    given = {row["name"]: row["given"] for row in examples}
    left = {row["image"]["path"]: row["label"] for row in table.to_pylist()}
    assert {name: left[name] for name in given if name in left} == {
        name: label for name, label in given.items() if name not in flagged()
    }
    answer = run(*shlex.split(told["train"])[1:], "--out", "again")
    assert answer.code == 0, answer


def test_what_is_there_stays_and_the_same_again_is_fine():
    table("t.csv", {"text": texts(), "label": GIVEN})
    trained("t.csv")
    fixed()
    before = found(Path("fixed"))
    fixed()
    assert found(Path("fixed")) == before
    words = ("inspect", "run", *LOOK, "--fix")
    one_line(run(*words, "fixed", "--fix-by", "replace"), "fixed exists", "--fix")
    assert found(Path("fixed")) == before
    Path("other").mkdir()
    Path("other/mine.txt").write_text("mine")
    one_line(run(*words, "other"), "other exists", "--fix")
    one_line(run(*words, "t.csv"), "without .csv")
    one_line(run(*words, "fixed/fix.json"), "exists")
    assert found(Path("other")) == {"mine.txt": b"mine"}
    one_line(run("inspect", "run", "--fix-by", "replace"), "--fix")


def test_what_cannot_be_fixed_is_said_in_one_line():
    pictures(Path("animals"))
    trained("animals")
    one_line(run("inspect", "run", *LOOK, "--fix", "animals/new"), "inside the data")
    one_line(run("inspect", "run", "--max-fpr", "0.001", "--fix", "f"), "Nothing to fix", "12")
    table("own.csv", {"given": ["a", "b"], "loss": [1, 2]})
    one_line(run("inspect", "own.csv", "--fix", "f"), "is a table")
    file = sorted(Path("animals/cat").iterdir())[0]
    Image.new("L", (16, 16)).save(file)
    one_line(run("inspect", "run", *LOOK, "--fix", "f"), "has changed since", "cat/00.png")
    assert not Path("f").exists()


def test_labels_that_were_corrected_since_the_run_are_not_undone():
    table("t.csv", {"text": texts(), "label": GIVEN})
    trained("t.csv")
    corrected = ["dog" if label != "dog" else "cat" for label in GIVEN[:3]]
    table("t.csv", {"text": texts(), "label": [*corrected, *GIVEN[3:]]})
    one_line(run("inspect", "run", *LOOK, "--fix", "f"), "changed since the run", "train anew")
    assert not Path("f").exists()


def test_a_folder_whose_name_begins_with_a_dash_is_written_and_trained_on():
    trained(table("said.csv", {"text": texts(), "label": GIVEN}))
    answer = run("inspect", "run", *LOOK, "--fix=-fixed", "--json")
    assert answer.code == 0, answer
    assert Path("./-fixed/fix.json").is_file()
    trains(json.loads(answer.out)["fix"])

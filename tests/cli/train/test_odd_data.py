"""Folders and tables as they come, through the command line."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.trained import QUICK, content, one_line, pictures, run, unchecked

TRAIN = ["--teacher", "margin-loss", "--teacher-every", "2"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Everything below one folder, without the type checks that slow training down."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with unchecked():
        yield


@pytest.fixture
def odd(tmp_path) -> Path:
    """Photos of many sizes and turns in a folder of an odd name, two of them broken."""
    root = pictures(tmp_path / "path with blanks [v1] (copy)" / "données", mode="RGB")
    random = np.random.default_rng(1)
    for number, file in enumerate(sorted(root.rglob("*.png"))):
        height, width = random.integers(12, 40, 2)
        pixels = random.integers(0, 255, (height, width, 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[274] = 1 + number % 8
        Image.fromarray(pixels).save(file.with_name(f"x {number}#%20.jpg"), exif=exif)
        file.unlink()
    for name in ("cat", "emu"):
        broken = sorted((root / name).iterdir())[3]
        broken.write_bytes(broken.read_bytes()[:90])
    (root / "empty class").mkdir()
    return root


def test_an_odd_folder_is_refused_fault_by_fault_until_all_is_said(odd, tmp_path, caplog):
    said: list[str] = []
    for flags, message in (
        (["--empty-classes", "keep"], "class folders without images: empty class; fill"),
        (["--image-size", "16"], "images differ in size"),
        (["--broken-images", "skip"], "cannot be read as an image"),
    ):
        one_line(run("train", odd, *QUICK, *TRAIN, *said, "--out", "run"), message)
        said += flags
    answer = run("train", odd, *QUICK, *TRAIN, *said, "--out", "run [1] é")
    assert answer.code == 0, answer
    assert "2 images that cannot be read are left out" in caplog.text
    assert "No training example is of class empty class" in caplog.text
    assert "in 4 classes" in answer.out
    notes = content(tmp_path / "run [1] é" / "environment.json")["notes"]
    assert "2 images that cannot be read" in notes
    table = pq.read_table("run [1] é/students/untaught-seed0/examples.parquet").to_pydict()
    assert set(table["label"]) <= {"cat", "dog", "emu"}
    assert all((odd / name).is_file() for name in table["name"])
    again = run(
        "train", odd, *QUICK, *said, "--commentary", "run [1] é/commentary", "--out", "b"
    )
    assert again.code == 0, again


def test_a_table_with_windows_paths_gaps_and_marks_is_trained_on(tmp_path, caplog):
    root = pictures(tmp_path / "photo of a train [v1]", ("test", "val"), count=30)
    files = sorted(path.relative_to(tmp_path) for path in root.rglob("*.png"))
    labels = [str(7 * (file.parent.name == "val")) for file in files]
    labels[3], labels[40], labels[41] = "", "255", "-1"
    rows = [f"{str(f).replace('/', chr(92))},{y}" for f, y in zip(files, labels, strict=True)]
    (tmp_path / "labels.csv").write_text("file,label\n" + "\n".join(rows) + "\n")
    first = ["train", "labels.csv", *QUICK, *TRAIN, "--out", "run"]
    one_line(run(*first), "no label in row 5", "--missing-labels skip")
    first += ["--missing-labels", "skip"]
    one_line(run(*first), "row 42", "label 255", "--ignore-labels")
    answer = run(*first, "--ignore-labels", "255", "-1")
    assert answer.code == 0, answer
    assert "no label in rows 5, 42, 43" in caplog.text
    assert "No training example is of class 1, 2, 3, 4, 5 and 1 more" in caplog.text
    assert "in 8 classes" in answer.out


def test_the_weights_of_a_run_are_used_again_by_name(tmp_path):
    root = pictures(tmp_path / "pets")
    quick = ["train", root, *QUICK, "--noise", "none"]
    assert run(*quick, *TRAIN, "--out", "run").code == 0
    table = tmp_path / "run" / "students" / "margin-loss-seed0" / "examples.parquet"
    again = run(*quick, "--weights-from", table, "--out", "again")
    assert again.code == 0, again
    first, second = (
        pq.read_table(file).to_pydict()
        for file in (table, tmp_path / "again/students/weights-seed0/examples.parquet")
    )
    assert dict(zip(first["name"], first["weight"], strict=True)) == pytest.approx(
        dict(zip(second["name"], second["weight"], strict=True))
    )
    assert "weights of a file" in (tmp_path / "again" / "report.html").read_text()
    gone = root / first["name"][4]
    shutil.move(gone, tmp_path / "elsewhere.png")
    one_line(
        run(*quick, "--weights-from", table, "--out", "c"), "rows whose example is gone", "Say"
    )
    last = run(*quick, "--weights-from", table, "--default-weight", "1", "--out", "d")
    assert last.code == 0, last
    third = pq.read_table(tmp_path / "d/students/weights-seed0/examples.parquet").to_pydict()
    known = dict(zip(first["name"], first["weight"], strict=True))
    assert len(known.keys() & set(third["name"])) > 20
    for name, weight in zip(third["name"], third["weight"], strict=True):
        assert weight == pytest.approx(known.get(name, 1.0))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--default-weight", "1"], "--default-weight is about --weights-from"),
        (["--weights-from", "w.csv", "--teacher", "loss"], "give one of the three"),
        (["--weights-from", "nowhere.csv"], "there is no table"),
        (["--image-size", "0"], "--image-size must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_told(tmp_path, flags, message):
    one_line(run("train", pictures(tmp_path / "pets"), *QUICK, *flags), message)


def test_labels_of_a_table_are_found_by_the_names_of_the_images(tmp_path):
    root = pictures(tmp_path / "pets")
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.png"))
    rows = "".join(f"{name},{'dog' if name == 'cat/03.png' else name[:3]}\n" for name in names)
    (tmp_path / "labels.csv").write_text(f"name,mine\n{rows}")
    answer = run(
        "train",
        root,
        *QUICK,
        *TRAIN,
        *("--labels-from", "labels.csv", "--label-column", "mine", "--out", "run"),
    )
    assert answer.code == 0, answer
    facts = json.loads((tmp_path / "run" / "summary.json").read_text())["data"]
    table = pq.read_table("run/students/untaught-seed0/examples.parquet").to_pydict()
    wrong = [
        n
        for n, given, true in zip(*map(table.get, ("name", "label", "true")), strict=True)
        if given != ("cat", "dog", "emu")[true]
    ]
    assert set(wrong) <= {"cat/03.png"}
    assert facts["wrong_labels"] == len(wrong) / facts["train"]


def test_what_is_learnt_on_an_odd_folder_is_shown_and_used_by_the_words_it_prints(odd):
    flags = ["--empty-classes", "keep", "--broken-images", "skip", "--image-size", "16"]
    few = ["--steps", "2", "--episodes", "1", "--held-out", "9", "--batch-size", "8"]
    learned = run(*(
        "commentary",
        "learn",
        odd,
        "--teacher",
        "curriculum",
        *flags,
        *few,
        "--out",
        "a [1]",
    ))
    assert learned.code == 0, learned
    words = learned.out.partition("Use it:")[2].strip()
    assert shlex.split(words) == [
        *("tutelage", "train", str(odd)),
        *("--broken-images", "skip", "--empty-classes", "keep", "--image-size", "16"),
        *("--commentary", "a [1]"),
    ]
    used = run(*shlex.split(words)[1:], *QUICK, "--out", "run")
    assert used.code == 0, used
    shown = run("commentary", "show", "a [1]", "--data", odd, "--image-size", "16")
    assert shown.code == 0, shown

"""Texts in place of images, through the command line."""

import csv
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertConfig, BertForMaskedLM

from papers.yi2021mmel.language_models import learned_tokenizer
from tests.trained import QUICK, assert_same_run, content, one_line, run, unchecked
from tutelage_cli.train.material import read_source
from tutelage_cli.train.names import CONTROLS
from tutelage_cli.train.settings import TrainSettings

WORDS = {"cat": ["meow", "purrs", "mouse"], "dog": ["bark", "bone", "fetch"]}
TRAIN = [*QUICK, "--teacher", "margin-loss", "internal-state", "--teacher-every", "2"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Sixty texts in a table of one's own, below one folder."""
    monkeypatch.chdir(tmp_path)
    drawn = random.Random(0)
    rows = [("comment", "class")]
    for number in range(60):
        animal = ("cat", "dog")[number % 2]
        words = [drawn.choice([*WORDS[animal], "the", "a", "and"]) for _ in range(6)]
        rows.append((" ".join(words), animal))
    with Path("pets.csv").open("w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows(rows)
    with unchecked():
        yield


def test_a_table_of_texts_trains_and_leaves_what_was_made_of_every_text():
    answer = run("train", "pets.csv", *TRAIN, "--noise", "flip:0.3", "--out", "x")
    assert answer.code == 0, answer
    assert "39 training, 9 held-out and 12 test texts in 2 classes" in answer.out
    rows = pq.read_table("x/students/margin-loss-seed0/examples.parquet").to_pylist()
    with Path("pets.csv").open(encoding="utf-8") as table:
        texts = [row["comment"] for row in csv.DictReader(table)]
    assert len(rows) == 39
    for row in rows:
        assert row["text"] == texts[row["id"]]
        assert row["name"] == f"row {row['id'] + 2}"
    page = Path("x/report.html").read_text(encoding="utf-8")
    least = min(rows, key=lambda row: row["weight"])
    assert f'<th scope="row">{least["id"]}</th><td>{least["text"]}</td>' in page
    assert content(Path("x/summary.json"))["arms"].keys() == {
        "untaught",
        "margin-loss",
        "internal-state",
    }


def test_two_processes_train_the_same_students_as_one():
    for jobs, out in (("1", "one"), ("2", "two")):
        words = ["--jobs", jobs] if jobs == "2" else []
        assert run("train", "pets.csv", *TRAIN, *words, "--out", out).code == 0
    assert_same_run(Path("one"), Path("two"))


def test_weights_and_a_commentary_of_texts_are_used_again():
    assert run("train", "pets.csv", *TRAIN, "--out", "x").code == 0
    kept = "x/students/margin-loss-seed0/examples.parquet"
    for flags in (["--weights-from", kept], ["--commentary", "x/commentary"]):
        answer = run("train", "pets.csv", *QUICK, *flags)
        assert answer.code == 0, answer


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--student", "resnet20"], "Unknown student 'resnet20' of texts. Allowed: bag, or a"),
        (["--augment", "crop"], "augment is about images, but"),
        (["--teacher", "curriculum"], "curriculum takes images, but pets.csv has texts"),
        (["--teacher", "rand-augment"], "augmentation takes images, but pets.csv has"),
        (["--noise", "human:worst"], "gives labels of cifar10, but"),
        (["--text-column", "words"], "no column 'words' (--text-column)"),
        (["--held-out", "48"], "pets.csv has 48 training texts; give fewer"),
        (["--max-length", "0"], "--max-length must"),
    ],
)
def test_what_does_not_go_with_texts_is_one_line(flags, message):
    one_line(run("train", "pets.csv", *QUICK, *flags, "--out", "x"), message)


def test_settings_of_texts_are_refused_for_images():
    one_line(run("train", "mnist5k", "--max-length", "9"), "--max-length is about texts")
    one_line(run("commentary", "learn", "mnist5k", "--max-length", "9"), "is about texts")


@pytest.mark.usefixtures("report_in_a_word")
@pytest.mark.parametrize("algorithm", ["unroll", "implicit"])
@pytest.mark.parametrize("teacher", ["margin-loss", "internal-state", "loss", "l2t-loss"])
def test_a_commentary_is_learned_over_fresh_students(teacher, algorithm):
    rows = ["comment,class", *(f"{animal} {n},{animal}" for n in range(5) for animal in WORDS)]
    Path("checked.csv").write_text("\n".join(rows), encoding="utf-8")
    words = ["--steps", "2", "--episodes", "2", "--batch-size", "8"]
    words += ["--held-out-from", "checked.csv"]
    words += ["--teacher", teacher, "--algorithm", algorithm, "--out", "c"]
    answer = run("commentary", "learn", "pets.csv", *words)
    assert answer.code == 0, answer
    assert run("commentary", "show", "c").code == 0
    answer = run("train", "pets.csv", *QUICK, "--commentary", "c", "--out", "used")
    assert answer.code == 0, answer


def test_a_teacher_that_looks_at_images_is_refused():
    learn = run("commentary", "learn", "pets.csv", "--out", "c")
    one_line(learn, "curriculum needs images", "pets.csv holds texts", "margin-loss")


def test_a_table_of_neither_says_both_ways_to_name_a_column():
    Path("odd.csv").write_text("words,label\na,b\n", encoding="utf-8")
    one_line(run("train", "odd.csv"), "--image-column, or one of texts with --text-column")


def test_a_folder_of_transformers_is_a_student_with_tokens_of_its_own(tmp_path):
    texts = [word for words in WORDS.values() for word in words]
    words = learned_tokenizer(texts, 60)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    folder = ["--student", tmp_path / "bert", "--lr", "0.01"]
    one_line(run("train", "pets.csv", *TRAIN, *folder, "--max-length", "32"), "no tokenizer")
    words.save_pretrained(tmp_path / "bert")
    one_line(
        run("train", "pets.csv", *TRAIN, *folder), "no texts of 128 tokens: give a smaller"
    )
    answer = run("train", "pets.csv", *TRAIN, *folder, "--max-length", "32", "--out", "x")
    assert answer.code == 0, answer


def test_an_inspection_lists_the_texts_themselves():
    assert run("train", "pets.csv", *TRAIN, "--out", "x").code == 0
    answer = run("inspect", "x", "--arm", "margin-loss", "--out", "seen")
    assert answer.code == 0, answer
    with Path("seen/examples.csv").open(encoding="utf-8-sig") as table:
        rows = list(csv.DictReader(table))
    with Path("pets.csv").open(encoding="utf-8") as table:
        texts = [row["comment"] for row in csv.DictReader(table)]
    assert len(rows) == 39
    assert all(row["text"] == texts[int(row["name"].removeprefix("row ")) - 2] for row in rows)
    assert rows[0]["text"] in Path("seen/index.html").read_text(encoding="utf-8")


def test_texts_have_every_control_and_leave_what_images_leave():
    words = [word for word in TRAIN if word not in ("--controls", "none", "internal-state")]
    answer = run("train", "pets.csv", *words, "--noise", "flip:0.3", "--out", "x")
    assert answer.code == 0, answer
    arms = content(Path("x/summary.json"))["arms"]
    assert list(arms) == ["untaught", "margin-loss", *CONTROLS]
    page = Path("x/report.html").read_text(encoding="utf-8")
    assert all(f'<th scope="row">{arm}</th>' in page for arm in arms)
    rows = pq.read_table("x/students/cross-fitted-seed0/examples.parquet").to_pylist()
    assert all(0 <= row["weight"] <= 1 for row in rows)
    assert len({row["weight"] for row in rows}) > 10
    least = min(rows, key=lambda row: row["weight"])
    assert f'<th scope="row">{least["id"]}</th><td>{least["text"]}</td>' in page


def test_seeds_that_leave_other_copies_out_are_reported_together():
    with Path("pets.csv").open("a", newline="", encoding="utf-8") as table:
        rows = [("meow the bone", "cat"), ("bark a mouse", "dog")] * 5
        csv.writer(table).writerows(rows)
    words = [word for word in TRAIN if word != "internal-state"]
    words[words.index("--seeds") + 1] = "3"
    answer = run("train", "pets.csv", *words, "--noise", "flip:0.3", "--out", "x")
    assert answer.code == 0, answer
    tables = [Path(f"x/students/margin-loss-seed{n}/examples.parquet") for n in range(3)]
    assert len({pq.read_table(table).num_rows for table in tables}) > 1
    assert "Mean weight by label" in Path("x/report.html").read_text(encoding="utf-8")


def test_what_is_left_out_of_texts_and_features_is_said(tmp_path, caplog):
    labels = ["cat", "dog", "Cat"] * 9 + [None]
    columns = {"text": [f"text {row}" for row in range(28)], "label": labels}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    vectors = {"embedding": [[float(row), 1.0] for row in range(28)], "label": labels}
    pq.write_table(pa.table(vectors), tmp_path / "f.parquet")
    for name in ("t", "f"):
        caplog.clear()
        settings = TrainSettings(str(tmp_path / f"{name}.parquet"), missing_labels="skip")
        read_source(settings)
        assert "no label in row 29 (the header is row 1): left out" in caplog.text
        assert "'Cat', 'cat' differ in case or blanks alone" in caplog.text

"""Held-out and test examples of texts and feature vectors come from sources of their own."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tests.trained import QUICK, content, one_line, pictures, run, unchecked
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.check import fingerprint
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.settings import TrainSettings

TRAIN = [*QUICK, "--teacher", "margin-loss"]


@pytest.fixture(autouse=True)
def _place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with unchecked():
        yield


def texts(file: str, labels: str, start: int = 0, column: str = "text") -> str:
    with Path(file).open("w", newline="", encoding="utf-8") as table:
        rows = csv.writer(table)
        rows.writerow((column, "label"))
        rows.writerows((f"{label} word{start + n}", label) for n, label in enumerate(labels))
    return file


def vectors(file: str, labels: str, start: int = 0, width: int = 3) -> str:
    rows = np.arange(start, start + len(labels))[:, None] + np.arange(width) / 10
    np.savez(file, features=rows, label=list(labels))
    return file


@pytest.mark.parametrize("write", [texts, vectors])
def test_examples_of_both_sources_are_under_the_classes_of_the_training_set(write):
    kind = ".csv" if write is texts else ".npz"
    data = write(f"data{kind}", "abc" * 10)
    checked, tested = write(f"c{kind}", "cacac", 100), write(f"t{kind}", "bbc", 200)
    settings = TrainSettings(data, held_out_from=checked, test_from=tested)
    material = seed_material(read_source(settings), settings, 0)
    assert (len(material.train), material.train.classes) == (30, ("a", "b", "c"))
    assert material.held_out.labels.tolist() == [2, 0, 2, 0, 2]
    assert material.test.labels.tolist() == [1, 1, 2]
    assert material.held_out.classes == material.test.classes == ("a", "b", "c")


def test_texts_of_other_sources_have_the_tokens_of_the_training_set():
    data, tested = texts("data.csv", "ab" * 10), texts("t.csv", "abba", 0)
    settings = TrainSettings(data, test_from=tested)
    splits = read_source(settings).splits
    train, test = splits.train, splits.test
    assert isinstance(train, TextSet)
    assert isinstance(test, TextSet)
    assert train.words == test.words
    row = train.shown().index("a word0")
    count = int(train.tokens[row, 2].sum())
    assert test.tokens[0, 0, :count].tolist() == train.tokens[row, 0, :count].tolist()


def test_both_parts_of_a_source_are_taken_and_keep_names_of_their_own():
    for folder, start in (("data", 0), ("checked", 100)):
        Path(folder).mkdir()
        texts(f"{folder}/train.csv", "ab" * 10, start)
        texts(f"{folder}/test.csv", "ab" * 3, start + 50)
    settings = TrainSettings("data", held_out_from="checked", test_from="checked")
    source = read_source(settings)
    assert source.trusted is not None
    names = source.trusted.names()
    assert len(source.trusted) == len(set(names)) == 26
    assert sum(name.startswith("test/") for name in names) == 6
    assert len(source.splits.train) == 20
    assert "The test part of data (6 examples) is not used" in " ".join(source.splits.notes)


@pytest.mark.parametrize("write", [texts, vectors])
def test_students_are_judged_and_tested_on_them(write):
    kind = ".csv" if write is texts else ".npz"
    data = write(f"data{kind}", "abc" * 20)
    words = ["--held-out-from", write(f"c{kind}", "cacab", 100)]
    words += ["--test-from", write(f"t{kind}", "bbca", 200)]
    answer = run("train", data, *TRAIN, *words, "--noise", "flip:0.2", "--out", "x")
    assert answer.code == 0, answer
    facts = content(Path("x/summary.json"))["data"]
    assert (facts["train"], facts["held_out"], facts["test"]) == (60, 5, 4)


def test_training_examples_that_judge_are_not_trained_on():
    data = vectors("data.npz", "abc" * 10)
    settings = TrainSettings(data, held_out_from=vectors("c.npz", "abc", 0), test_from=data)
    material = seed_material(read_source(settings), settings, 0)
    assert len(material.train) == 27
    assert isinstance(material.train, FeatureSet)
    assert float(material.train.features[:, 0].min()) == 3


def test_other_trusted_examples_are_other_data():
    data = vectors("data.npz", "abc" * 10)

    def digest(start: int) -> str:
        settings = TrainSettings(data, held_out_from=vectors("c.npz", "abc", start))
        return fingerprint(read_source(settings))

    assert digest(100) != digest(101)


def test_sources_that_do_not_fit_are_one_line():
    table, array = texts("data.csv", "abc" * 20), vectors("data.npz", "abc" * 20)
    other = texts("other.csv", "abd", 100)
    one_line(run("train", table, *TRAIN, "--held-out-from", other), "a class 'd', which data")
    one_line(
        run("train", table, *TRAIN, "--test-from", other), "--test-from", "has a class 'd'"
    )
    plain = texts("plain.csv", "abc", 100, column="of")
    one_line(run("train", table, *TRAIN, "--test-from", plain), "has no columns of texts")
    one_line(run("train", table, *TRAIN, "--test-from", array), "has no columns of texts")
    one_line(run("train", array, *TRAIN, "--test-from", table), "holds no feature vectors")
    one_line(run("train", array, *TRAIN, "--test-from", "gone.npz"), "there is no file")
    wide = vectors("wide.npz", "abc", 100, width=4)
    one_line(run("train", array, *TRAIN, "--test-from", wide), "vectors of 4 numbers")


def test_images_are_tested_on_a_source_of_their_own():
    data = pictures(Path("pets"))
    tested = pictures(Path("tested"), ("emu", "cat"), count=4, seed=9)
    settings = TrainSettings(str(data), test_from=str(tested), held_out=9)
    material = seed_material(read_source(settings), settings, 0)
    assert (len(material.train), len(material.held_out)) == (51, 9)
    assert material.test.labels.tolist() == [0] * 4 + [2] * 4


def test_a_commentary_is_learned_by_held_out_images_of_a_source_of_their_own():
    data = pictures(Path("pets"))
    checked = pictures(Path("checked"), ("emu", "cat"), count=4, seed=9)
    words = ["--teacher", "margin-loss", "--steps", "3", "--episodes", "2", "--batch-size", "8"]
    for algorithm in ("unroll", "implicit"):
        answer = run(
            "commentary", "learn", data, *words, "--algorithm", algorithm,
            "--held-out-from", checked, "--out", algorithm,
        )  # fmt: skip
        assert answer.code == 0, answer
    missing = run("commentary", "learn", data, "--held-out-from", "gone", "--out", "c")
    one_line(missing, "gone")


def test_images_of_other_channels_are_told_or_refused(caplog):
    grey, coloured = pictures(Path("grey")), pictures(Path("coloured"), mode="RGB", seed=3)
    read_source(TrainSettings(str(coloured), test_from=str(grey), held_out=9))
    said = [r.getMessage() for r in caplog.records if "channel" in r.getMessage()]
    assert said == [
        "--test-from grey has images of 1 channel, unlike the others of 3: the channel is "
        "repeated."
    ]
    answer = run("train", grey, *TRAIN, "--held-out-from", coloured)
    one_line(answer, "--held-out-from", "coloured has images of 3", "grey of 1", "convert")


def test_a_test_part_of_other_channels_is_told():
    pictures(Path("set/train"), mode="RGB")
    pictures(Path("set/test"), seed=1)
    notes = read_source(TrainSettings("set", held_out=9)).splits.notes
    assert any("test has images of 1 channel, unlike the others of 3" in note for note in notes)

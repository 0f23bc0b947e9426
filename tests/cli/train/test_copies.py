"""What judges students is neither trained on nor tested on in silence, through every door."""

import csv
import shutil
from pathlib import Path

import pytest

from tests.trained import QUICK, content, one_line, pictures, run
from tutelage_cli.commentary.learn import _open
from tutelage_cli.commentary.settings import LearnSettings
from tutelage_cli.train.check import fingerprint
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.settings import TrainSettings


def checked(
    pets: Path, root: Path, number: int, *, classes: tuple[str, ...] = ("cat",)
) -> Path:
    """Pictures of their own, and copies of training pictures under other names."""
    pictures(root, ("cat", "dog", "emu"), count=5, seed=9)
    for name in classes:
        for place in range(number):
            shutil.copy(pets / name / f"{place:02}.png", root / name / f"checked-{place}.png")
    return root


def test_copies_of_held_out_pictures_are_left_out_and_counted(pets, tmp_path, caplog):
    where = checked(pets, tmp_path / "checked", 8)
    settings = TrainSettings(data=str(pets), held_out_from=str(where))
    source = read_source(settings)
    material = seed_material(source, settings, 0)
    trusted = set(material.held_out.contents())
    assert not trusted & set(material.train.contents())
    gone = 48 - len(material.train)
    assert 0 < gone <= 8  # some of the eight are in the test part
    told = [note for note in source.splits.notes if "which are held out" in note]
    assert told[0].startswith(f"{gone} of the 48 training images of {pets.name} are")
    tested = sum(content in trusted for content in material.test.contents())
    assert gone + tested == 8
    assert told[1].startswith(f"{tested} of the 23 images of {where}")
    assert "copies of test images" in told[1]
    assert all(note in caplog.text for note in told)


def test_the_command_says_so_and_trains_on_the_others(pets, tmp_path):
    where = checked(pets, tmp_path / "checked", 8)
    out = tmp_path / "run"
    words = ["--held-out-from", where, "--teacher", "loss", "--out", out]
    assert run("train", pets, *QUICK, *words).code == 0
    facts = content(out / "summary.json")["data"]
    assert facts["train"] < 48
    assert "are not trained on" in content(out / "environment.json")["notes"]


def test_copies_of_a_whole_class_are_refused(pets, tmp_path):
    where = checked(pets, tmp_path / "checked", 20, classes=("cat", "dog"))
    answer = run("train", pets, *QUICK, "--held-out-from", where)
    one_line(answer, where, "every training example of class 'cat'", "take some out")


def test_the_data_themselves_judge_nobody(pets):
    one_line(run("train", pets, *QUICK, "--held-out-from", pets), "every training example")


def twins(pets: Path, root: Path) -> Path:
    """Pictures of which ten of a class stand there twice."""
    shutil.copytree(pets, root)
    for place in range(10):
        shutil.copy(pets / "cat" / f"{place:02}.png", root / "cat" / f"again-{place}.png")
    return root


@pytest.mark.parametrize("limit", [None, 30])
def test_copies_of_what_is_held_out_of_the_set_itself_are_not_trained_on(pets, tmp_path, limit):
    root = twins(pets, tmp_path / "twins")
    settings = TrainSettings(data=str(root), held_out=15, limit=limit)
    source = read_source(settings)
    for seed in range(3):
        material = seed_material(source, settings, seed)
        assert not set(material.held_out.contents()) & set(material.train.contents())
        assert limit is None or len(material.train) == limit
    assert any("have copies among one another" in note for note in source.splits.notes)
    assert any("test examples of twins are copies" in note for note in source.splits.notes)


def test_learning_a_commentary_does_the_same(pets, tmp_path):
    root = twins(pets, tmp_path / "twins")
    settings = LearnSettings(data=str(root), held_out=15, batch_size=8)
    _, streams = _open(settings, lambda _: None)
    held_out, train = (
        set(part.examples.contents()) for part in (streams.held_out, streams.train)
    )
    assert not held_out & train


def test_texts_are_compared_by_their_letters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"text {n // 2} is {'good' if n % 4 < 2 else 'bad'}", n % 4 < 2) for n in range(80)
    ]
    for part, some in (("train", rows), ("test", rows[:6])):
        (tmp_path / "texts").mkdir(exist_ok=True)
        with Path(f"texts/{part}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *some])
    settings = TrainSettings(data="texts", teacher=("margin-loss",), held_out=10)
    source = read_source(settings)
    material = seed_material(source, settings, 0)
    assert not set(material.held_out.contents()) & set(material.train.contents())
    told = " ".join(source.splits.notes)
    assert "6 of the 6 test examples of texts are copies" in told
    assert "80 training texts of texts have copies" in told


def test_data_without_copies_have_the_fingerprint_that_they_had(pets, tmp_path):
    settings = TrainSettings(data=str(pets))
    source = read_source(settings)
    assert source.splits.notes == ()
    bare = type(source)(source.splits, source.given)
    assert fingerprint(source) == fingerprint(bare)
    other = read_source(TrainSettings(data=str(twins(pets, tmp_path / "pets"))))
    assert fingerprint(other) != fingerprint(type(other)(other.splits, other.given))


def test_the_embedded_digits_judge_themselves_in_no_case():
    one_line(run("train", "mnist5k", "--held-out-from", "mnist5k"), "every training example")

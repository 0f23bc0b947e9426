"""Held-out images come from a source of their own where one is named."""

import torch

from tests.trained import QUICK, content, one_line, pictures, run
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load
from tutelage_cli.train.check import fingerprint
from tutelage_cli.train.material import (
    about_given_test_labels,
    read_source,
    seed_material,
)
from tutelage_cli.train.settings import TrainSettings


def test_trusted_images_judge_and_none_are_taken_from_the_training_set(pets, tmp_path) -> None:
    trusted = pictures(tmp_path / "trusted", ("emu", "cat"), count=7, seed=1)
    words = ["--held-out-from", trusted, "--teacher", "loss", "--out", tmp_path / "run"]
    answer = run("train", pets, *QUICK, *words)
    assert answer.code == 0, answer
    facts = content(tmp_path / "run" / "summary.json")["data"]
    assert (facts["train"], facts["held_out"], facts["test"]) == (48, 14, 12)


def test_their_labels_are_found_by_the_names_of_classes(pets, tmp_path) -> None:
    trusted = pictures(tmp_path / "trusted", ("emu", "cat"), count=7, seed=1)
    settings = TrainSettings(data=str(pets), held_out_from=str(trusted), noise="flip:1")
    held_out = seed_material(read_source(settings), settings, 0).held_out
    assert held_out.classes == ("cat", "dog", "emu")
    assert torch.bincount(held_out.labels, minlength=3).tolist() == [7, 0, 7]
    own = load(str(trusted), reading=Reading(whole=True)).train
    assert torch.equal(held_out.images[held_out.labels == 2], own.images[own.labels == 1])


def test_other_classes_and_sizes_are_refused_in_one_line(pets, tmp_path) -> None:
    others = pictures(tmp_path / "others", ("cat", "emus"), count=7)
    one_line(run("train", pets, "--held-out-from", others), "emus", "Did you mean 'emu'")
    small = pictures(tmp_path / "small", ("cat", "emu"), count=7, size=8)
    one_line(run("train", pets, "--held-out-from", small), "(1, 8, 8)", "--image-size")
    one_line(run("train", pets, "--held-out-from", tmp_path / "gone"), "gone")


def test_of_a_small_set_a_fifth_is_held_out_where_nothing_is_said(pets) -> None:
    settings = TrainSettings(data=str(pets))
    material = seed_material(read_source(settings), settings, 0)
    assert (len(material.train), len(material.held_out)) == (39, 9)


def test_images_of_both_parts_of_a_source_keep_names_of_their_own(pets, tmp_path) -> None:
    for seed, part in enumerate(("train", "test")):
        pictures(tmp_path / "trusted" / part, ("emu", "cat"), count=7 + seed, seed=seed)
    settings = TrainSettings(data=str(pets), held_out_from=str(tmp_path / "trusted"))
    held_out = seed_material(read_source(settings), settings, 0).held_out
    names = held_out.names()
    assert len(held_out) == len(set(names)) == len(held_out.ids.unique()) == 30
    assert sum(name.startswith("train/") for name in names) == 14


def test_other_trusted_images_are_other_data(pets, tmp_path) -> None:
    def digest(seed: int) -> str:
        trusted = pictures(tmp_path / str(seed), ("emu", "cat"), count=7, seed=seed)
        settings = TrainSettings(data=str(pets), held_out_from=str(trusted))
        return fingerprint(read_source(settings))

    assert digest(1) != digest(2)


def test_test_labels_that_may_be_wrong_are_warned_of_once(pets, tmp_path) -> None:
    """A test part, right labels beside the wrong ones, and --test-from need no warning."""
    line = f"The 12 test examples are a part of {pets.name} with its own labels"
    answer = run("train", pets, *QUICK, "--teacher", "loss", "--out", tmp_path / "run")
    assert answer.out.count(line) == 1
    assert answer.out.count("--test-from") == 1
    assert line in content(tmp_path / "run" / "environment.json")["notes"]
    beside = pictures(tmp_path / "beside", count=7, seed=1)
    for part in ("train", "test"):
        pictures(tmp_path / "parts" / part, count=7, seed=1)
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join(["cat", "dog", "emu"] * 16))
    told = {
        "none": TrainSettings(data=str(pets)),
        "noise": TrainSettings(data=str(pets), noise="flip:0.2"),
        "other labels": TrainSettings(
            data=str(pets), labels_from=tmp_path / "labels.csv", label_column="label"
        ),
        "a source": TrainSettings(data=str(pets), test_from=str(beside)),
        "a part": TrainSettings(data=str(tmp_path / "parts")),
    }
    warned = [name for name, of in told.items() if about_given_test_labels(read_source(of), of)]
    assert warned == ["none"]

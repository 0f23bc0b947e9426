"""A class is never lost in silence: refusals name it, the flag and the largest number."""

import pytest
import torch

from tests.trained import one_line, pictures, run
from tutelage_cli.data.splits import balanced_rows, limit_rows, most_balanced
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.settings import TrainSettings


def folder(root, seed=0, **counts):
    """A folder of train and test images, so many in each class of train."""
    for name, count in counts.items():
        pictures(root / "train", (name,), count=count, size=4, seed=seed)
        pictures(root / "test", (name,), count=1, size=4, seed=seed)
    return root


REFUSED = {
    "a small class": ({"a": 40, "b": 40, "c": 4}, ["--held-out", 15], "'c' has 4", 11),
    "by default": ({"a": 50, "b": 50, "c": 5}, [], "--held-out 21 (the default here)", 14),
    "all of a class": ({"a": 9, "b": 9, "c": 2}, ["--held-out", 6], "'c' has 2", 5),
    "the only one": ({"a": 6, "b": 6, "c": 1}, ["--held-out", 3], "'c' has 1", 2),
    "more than there are": ({"a": 6, "b": 6}, ["--held-out", 12], "nothing to train on", 10),
}


@pytest.mark.parametrize("name", REFUSED)
def test_more_than_leave_one_of_each_class_are_refused(tmp_path, name) -> None:
    counts, flags, part, most = REFUSED[name]
    data = folder(tmp_path / "set", **counts)
    one_line(run("train", data, *flags), part, f"{most} at most", "--held-out-from")
    settings = TrainSettings(str(data), held_out=most)
    material = seed_material(read_source(settings), settings, 3)
    assert len(material.held_out) == most
    assert bool((torch.bincount(material.train.labels, minlength=len(counts)) > 0).all())


def test_where_each_class_has_one_example_no_number_is_possible(tmp_path) -> None:
    data = folder(tmp_path / "set", a=1, b=1)
    answer = run("train", data, "--held-out", 1)
    one_line(answer, "--held-out 1", "'a' has 1", "--held-out-from")
    assert "at most" not in answer.err


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_number_is_that_of_the_choice_itself(seed) -> None:
    draws = torch.Generator().manual_seed(seed)
    counts = torch.randint(1, 7, (4,), generator=draws)
    labels = torch.repeat_interleave(torch.arange(4), counts)
    most = most_balanced(labels, keep=1)
    chosen, rest = balanced_rows(labels, most, 4, seed=seed, keep=1)
    assert len(chosen) == most
    assert bool((torch.bincount(labels[rest], minlength=4) > 0).all())
    taken = torch.bincount(labels[chosen], minlength=4)
    assert int(taken.max() - taken.min()) <= 1
    with pytest.raises(ValueError, match=f"fewer rows, at most {most}"):
        balanced_rows(labels, most + 1, 4, seed=seed, keep=1)


def test_a_limit_keeps_one_of_each_class_or_is_refused(tmp_path) -> None:
    labels = torch.tensor([0] * 80 + [1] * 15 + [2] * 2 + [3])
    for limit in (4, 5, 10, 20, 97):
        rows = limit_rows(labels, limit, 4, seed=0)
        assert len(rows) == limit
        assert bool((torch.bincount(labels[rows], minlength=4) > 0).all())
    data = folder(tmp_path / "set", a=6, b=6, c=6)
    one_line(run("train", data, "--limit", 2), "--limit 2", "3 classes", "3 and above")


def test_an_imbalance_of_a_class_without_examples_names_it(tmp_path) -> None:
    data = folder(tmp_path / "set", a=6, b=6)
    (data / "train" / "none").mkdir()
    answer = run("train", data, "--empty-classes", "keep", "--imbalance", 2)
    one_line(answer, "--imbalance 2", "none of none")


def test_labels_of_a_file_and_trusted_images_that_lack_a_class_are_told(tmp_path) -> None:
    data = folder(tmp_path / "set", a=6, b=6, c=6)
    trusted = folder(tmp_path / "trusted", seed=1, a=3, b=3)
    rows = "".join(f"{name}/{n:02}.png,{'ac'[n % 2]}\n" for name in "abc" for n in range(6))
    (tmp_path / "l.csv").write_text(f"path,l\n{rows}")
    settings = TrainSettings(
        str(data),
        labels_from=tmp_path / "l.csv",
        label_column="l",
        held_out_from=str(trusted),
        noise="none",
    )
    source = read_source(settings)
    notes = source.splits.notes
    assert "No label that is trained on is of class b." in notes
    assert "No held-out example is of class c." in notes


def test_held_out_examples_of_the_training_set_that_lack_a_class_are_told(tmp_path) -> None:
    data = folder(tmp_path / "set", a=6, b=6, c=6)
    lacking = [
        [note for note in read_source(settings).splits.notes if "held-out example" in note]
        for settings in (TrainSettings(str(data), held_out=n) for n in (1, 2, 3))
    ]
    assert lacking[0][0].startswith("No held-out example is of class ")
    assert [len(notes) for notes in lacking] == [1, 1, 0]


def test_trusted_tables_speak_of_the_classes_that_train_names(tmp_path) -> None:
    parts = (("train", ["1", "2", "n/a", "1"]), ("checked", ["2", "1", "2", "1"]))
    for seed, (name, labels) in enumerate(parts):
        root = pictures(tmp_path / name, ("x",), count=8, size=4, seed=seed)
        files = sorted(root.rglob("*.png"))
        rows = "".join(f"{f},{y}\n" for f, y in zip(files, labels * 2, strict=True))
        (tmp_path / f"{name}.csv").write_text(f"path,label\n{rows}")
    settings = TrainSettings(
        str(tmp_path / "train.csv"), held_out_from=str(tmp_path / "checked.csv")
    )
    held_out = seed_material(read_source(settings), settings, 0).held_out
    assert held_out.classes == ("1", "2", "n/a")
    of = dict(zip(held_out.names(), held_out.labels.tolist(), strict=True))
    assert {name[-6:]: label for name, label in of.items()} == {
        f"{n:02}.png": 1 - n % 2 for n in range(8)
    }

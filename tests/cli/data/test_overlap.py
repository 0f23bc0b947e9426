"""Copies are found by what examples hold, in all parts, whatever files are called."""

import csv
import logging
import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from tests.trained import pictures
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.overlap import content_numbers
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load


def a_set(values: list[int], name: str = "set") -> ImageSet:
    images = torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 2)
    rows = torch.arange(len(values))
    return ImageSet(images.contiguous(), rows % 2, rows, ("a", "b"), name)


def test_numbers_are_equal_where_contents_are():
    one, other = content_numbers(a_set([5, 6, 5]), a_set([7, 6]))
    assert one.tolist() == [0, 1, 0]
    assert other.tolist() == [2, 1]
    own, others = content_numbers(a_set([5, 6, 5]), a_set([6, 9]))
    assert torch.isin(own, others).tolist() == [False, True, False]


def two_parts(root: Path) -> Path:
    for seed, part in enumerate(("train", "test")):
        pictures(root / part, count=6, seed=seed)
    return root


def test_test_images_that_are_training_images_are_counted_and_said(tmp_path, caplog):
    root = two_parts(tmp_path / "pets")
    assert load(str(root)).notes == ()
    assert caplog.text == ""
    for number in range(3):
        Image.open(root / "train" / "cat" / f"{number:02}.png").save(
            root / "test" / "cat" / f"x{number}.bmp"
        )
    with caplog.at_level(logging.WARNING):
        splits = load(str(root))
    (note,) = splits.notes
    assert note.startswith("3 of the 21 test examples of pets are copies of training examples")
    assert "x0.bmp" in note
    assert "one of the two parts" in note
    assert note in caplog.text
    assert len(splits.test) == 21  # none is left out
    again = load(str(root))  # from the cache
    assert again.notes == splits.notes


def test_a_table_that_lists_a_picture_twice_is_told(tmp_path):
    root = two_parts(tmp_path / "pets")
    for part in ("train", "test"):
        with (root / f"{part}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = [(f"{part}/{c}/{n:02}.png", c) for c in ("cat", "dog") for n in range(6)]
            csv.writer(file).writerows([("path", "label"), *rows])
    shutil.copy(root / "train" / "dog" / "03.png", root / "test" / "cat" / "00.png")
    (note,) = load(str(root)).notes
    assert note.startswith("1 of the 12 test examples")


def test_pictures_of_many_sizes_are_compared_as_students_see_them(tmp_path):
    root = two_parts(tmp_path / "pets")
    with Image.open(root / "train" / "cat" / "00.png") as picture:
        picture.resize((32, 32), Image.Resampling.NEAREST).save(
            root / "test" / "cat" / "00.png"
        )
    flat = Image.new("L", (16, 16), 77)
    flat.save(root / "train" / "cat" / "flat.png")
    flat.resize((40, 40)).save(root / "test" / "dog" / "flat.png")
    (note,) = load(str(root), reading=Reading(image_size=8)).notes
    assert "flat.png" in note


@pytest.mark.parametrize("values", [[], [1]])
def test_small_sets_have_numbers_too(values):
    assert len(content_numbers(a_set(values))[0]) == len(values)

"""Students see images through the masks they are meant to, which move along with them."""

from dataclasses import replace

import pytest
import torch

from papers.raghu2021commentaries.masks_table import (
    Centres,
    InLastChannel,
    interleave_classes,
    mask_drawing,
    middles,
    permuted,
    with_mask_channel,
)
from papers.raghu2021commentaries.masks_xray import SMALL, parts_of, spread_of
from tests.cli.data.published.layouts import chexpert
from tutelage.augment import crop_and_flip
from tutelage.teachers.attention_mask import gaussian
from tutelage.types import Batch
from tutelage_cli.data.images import ImageSet

SIDE, SIGMA = 8, 2.0


def images(number: int, channels: int = 3) -> ImageSet:
    rows = torch.arange(number)
    pixels = torch.randint(256, (number, channels, SIDE, SIDE), dtype=torch.uint8)
    return ImageSet(pixels, rows % 3, rows, ("a", "b", "c"), "noise")


def test_a_mask_beside_an_image_hides_as_the_gaussian_does_and_is_cropped_with_it():
    made, where = images(5), torch.rand(5, 2) * SIDE
    paired = with_mask_channel(made, where, SIGMA).images
    rows = torch.arange(5)
    seen = InLastChannel().prepare(Batch(paired / 255, rows, rows)).inputs
    expected = made.images / 255 * gaussian(where, SIDE, SIDE, SIGMA)
    assert (seen - expected).abs().max() <= 0.5 / 255  # masks are kept as bytes
    moved = crop_and_flip(paired, seed=3, mode="zeros")
    apart = [crop_and_flip(part, seed=3, mode="zeros") for part in paired.split((3, 1), 1)]
    assert moved.equal(torch.cat(apart, 1))
    assert not moved.equal(paired)


def test_permuted_places_are_the_same_ones_on_other_images_of_the_same_set():
    at = Centres(torch.rand(50, 2), torch.rand(20, 2))
    other = permuted(at, 1)
    for before, after in zip(at, other, strict=True):
        assert sorted(before.tolist()) == sorted(after.tolist())
        assert (before == after).all(1).float().mean() < 0.3
    assert all(map(torch.equal, other, permuted(at, 1)))
    assert not other.train.equal(permuted(at, 2).train)


def test_the_middle_is_as_far_from_every_edge():
    made = images(4)
    at = middles(made)
    masks = with_mask_channel(made, at, SIGMA).images[:, -1]
    assert masks.equal(masks.flip(1))
    assert masks.equal(masks.flip(2))
    assert at.shape == (4, 2)


def test_every_class_comes_once_before_one_comes_again():
    labels = torch.tensor([2, 2, 0, 1, 0, 2, 1])
    assert interleave_classes(labels).tolist() == [2, 3, 0, 4, 6, 1, 5]


def test_the_first_images_of_every_class_are_drawn_with_their_masks():
    made = images(30, channels=1)
    drawing = mask_drawing(made, torch.rand(30, 2) * SIDE, SIGMA)
    assert drawing["captions"] == ["a"] * 3 + ["b"] * 3 + ["c"] * 2
    assert list(drawing["rows"]) == ["image", "mask", "seen"]


def test_places_are_measured_in_pixels():
    where = torch.tensor([[1.0, 2.0], [1.0, 6.0]])
    found = spread_of(where, where + torch.tensor([3.0, 4.0]))
    assert found == pytest.approx({"row": 1.0, "column": 4.0, "spread": 2.0, "apart": 5.0})


def test_the_x_ray_recipe_reads_chexpert_as_it_unpacks(tmp_path):
    few = {"train": 4, "held_out": 1, "tested": 2}
    parts = parts_of(replace(SMALL, data=str(chexpert(tmp_path)), **few), 0)
    assert parts.train.images.shape == (4, 1, 320, 200)
    assert parts.train.labels.bincount().tolist() == [2, 2]
    assert len(parts.held_out) == 1
    assert parts.test.labels.tolist() == [0, 1]

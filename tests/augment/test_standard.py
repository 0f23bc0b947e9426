"""Tests of crops and mirror images."""

import pytest
import torch
import torch.nn.functional as F

from tutelage.augment.standard import crop_and_flip, random_crop, random_flip
from tutelage.errors import UsageError


def pictures(count=64, dtype=torch.uint8, height=7, width=6):
    generator = torch.Generator().manual_seed(0)
    shape = (count, 3, height, width)
    return torch.randint(0, 256, shape, generator=generator).to(dtype)


def windows(image, pad, mode):
    """Every crop of one padded image, by the plain way."""
    kind = "reflect" if mode == "reflect" else "constant"
    padded = F.pad(image[None].double(), (pad,) * 4, mode=kind)[0]
    _, height, width = image.shape
    span = range(2 * pad + 1)
    return [padded[:, y : y + height, x : x + width].to(image) for y in span for x in span]


@pytest.mark.parametrize("mode", ["reflect", "zeros"])
def test_every_crop_is_a_window_of_the_padded_image(mode):
    images = pictures()
    cropped = random_crop(images, seed=0, pad=2, mode=mode)
    for image, crop in zip(images, cropped, strict=True):
        assert any(torch.equal(crop, window) for window in windows(image, 2, mode))


def test_every_shift_is_as_likely_as_any_other():
    places = torch.arange(49, dtype=torch.uint8).view(1, 1, 7, 7).expand(5000, 1, 7, 7)
    centres = random_crop(places, seed=1, pad=1)[:, 0, 3, 3]
    counts = torch.bincount(centres.long())
    assert sorted(centres.unique().tolist()) == [16, 17, 18, 23, 24, 25, 30, 31, 32]
    # 556 expected; five standard deviations are 111.
    assert (counts[counts > 0] - 5000 / 9).abs().max() < 111


def test_half_of_the_images_are_mirrored():
    images = pictures(2000)
    flipped = random_flip(images, seed=0)
    mirrored = (flipped == images.flip(3)).flatten(1).all(1)
    kept = (flipped == images).flatten(1).all(1)
    assert (mirrored | kept).all()
    # Five standard deviations of 2,000 fair coins are 112.
    assert abs(int(mirrored.sum()) - 1000) < 112


def test_both_together_mirror_the_same_crops():
    images = pictures()
    cropped = random_crop(images, seed=5, pad=2)
    both = crop_and_flip(images, seed=5, pad=2)
    kept = (both == cropped).flatten(1).all(1)
    mirrored = (both == cropped.flip(3)).flatten(1).all(1)
    assert (kept | mirrored).all()
    assert kept.any()
    assert mirrored.any()
    assert torch.equal(crop_and_flip(images, seed=5, pad=2, flip=False), cropped)


def test_the_same_seed_gives_the_same_images_and_leaves_the_global_one_alone():
    images = pictures()
    state = torch.get_rng_state()
    first = crop_and_flip(images, seed=2**63 - 1)
    assert torch.equal(first, crop_and_flip(images, seed=2**63 - 1))
    assert not torch.equal(first, crop_and_flip(images, seed=1))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("mode", ["reflect", "zeros"])
def test_type_and_values_are_kept(dtype, mode):
    expected = crop_and_flip(pictures(), seed=0, mode=mode)
    result = crop_and_flip(pictures(dtype=dtype), seed=0, mode=mode)
    assert result.dtype == dtype
    assert torch.equal(result.to(torch.uint8), expected)


@pytest.mark.parametrize("mode", ["reflect", "zeros"])
def test_no_images_give_no_images(mode):
    assert crop_and_flip(pictures(0), seed=0, mode=mode).shape == (0, 3, 7, 6)


def test_without_padding_and_mirroring_nothing_changes():
    images = pictures()
    assert torch.equal(random_crop(images, seed=0, pad=0), images)


def test_zeros_may_be_wider_than_the_image():
    cropped = random_crop(pictures(200), seed=0, pad=20, mode="zeros")
    assert (cropped == 0).flatten(1).all(1).any()


def test_wrong_paddings_are_refused():
    with pytest.raises(UsageError, match=r"unknown padding 'reflct'. Did you mean 'reflect'"):
        random_crop(pictures(), seed=0, mode="reflct")
    with pytest.raises(UsageError, match=r"pad is 6; allowed with mode 'reflect': 0..5"):
        random_crop(pictures(), seed=0, pad=6)
    with pytest.raises(UsageError, match=r"pad is -1; allowed with mode 'zeros': 0 and above"):
        random_crop(pictures(), seed=0, pad=-1, mode="zeros")

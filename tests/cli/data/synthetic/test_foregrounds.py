"""Masks say where an object is, and stay with it when it is moved."""

import pytest
import torch

from tests.cli.data.made_up import images
from tutelage.errors import UsageError
from tutelage_cli.data.synthetic.compositing import discs, ink, scattered


def test_ink_is_white_where_there_is_any():
    digits = images(5)
    made = ink(digits)
    assert made.images.images.shape == (5, 3, 8, 8)
    assert (made.images.images == 255).all()
    assert torch.equal(made.facts["mask"], digits.images[:, 0])
    with pytest.raises(UsageError, match="3 channels; allowed: 1"):
        ink(images(5, channels=3))


def test_a_disc_touches_the_rim_and_leaves_the_corners():
    mask = discs(images(2, channels=3, side=20)).facts["mask"][0]
    assert mask[0, 0] == 0
    assert mask[10, 10] == 255
    assert mask[10, 0] > 200
    assert torch.equal(mask, mask.flip(0))
    area = mask.float().mean() / 255
    assert abs(area - 3.1416 / 4) < 0.02


def test_objects_lie_in_their_boxes_and_nowhere_else():
    small = discs(images(200, channels=3, side=5))
    made = scattered(small, side=9, seed=0)
    assert made.images.images.shape == (200, 3, 9, 9)
    assert torch.equal(made.facts["base"], small.images.ids)
    for row, (top, left, bottom, right) in enumerate(made.facts["box"].tolist()):
        here = (slice(top, bottom), slice(left, right))
        for whole, part in (
            (made.images.images[row], small.images.images[row]),
            (made.facts["mask"][row][None], small.facts["mask"][row][None]),
        ):
            assert torch.equal(whole[:, *here], part)
            assert int(whole.sum()) == int(part.sum())
    assert made.facts["box"][:, :2].unique().tolist() == [0, 1, 2, 3, 4]


def test_objects_too_large_are_refused():
    with pytest.raises(UsageError, match=r"objects of 8x8 pixels .* do not fit into 7x7"):
        scattered(ink(images(3)), side=7, seed=0)

"""Images are turned about their centre, anticlockwise as they are seen."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.cli.data.made_up import images
from tutelage_cli.data.synthetic.rotated_ones import rotated


@pytest.mark.parametrize("turns", [-1, 0, 1, 2])
@pytest.mark.parametrize("side", [7, 8])
def test_quarter_turns_move_pixels_exactly(turns, side):
    pixels = images(3, channels=2, side=side).images
    turned = rotated(pixels, torch.full((3,), 90.0 * turns))
    assert torch.equal(turned, pixels.rot90(turns, (2, 3)))


def smooth():
    row, column = torch.arange(28)[:, None], torch.arange(28)[None, :]
    blob = 255 * torch.exp(-((row - 12) ** 2 / 16 + (column - 15) ** 2 / 4))
    return blob.round().to(torch.uint8)


@pytest.mark.parametrize("degrees", [-44.0, -5.5, 17.0, 45.0])
def test_other_angles_equal_what_pillow_does_within_rounding(degrees):
    blob = smooth()
    ours = rotated(blob[None, None], torch.tensor([degrees]))[0, 0].int()
    turned = Image.fromarray(blob.numpy()).rotate(degrees, Image.Resampling.BILINEAR)
    theirs = torch.tensor(np.asarray(turned)).int()
    # Pillow fills at once outside of the image; this one blends: so nothing at the rim.
    assert (ours - theirs).abs().max() <= 2


def test_a_half_turn_of_a_rectangle_stays_a_rectangle():
    pixels = torch.arange(15).view(1, 1, 3, 5).to(torch.uint8)
    assert torch.equal(rotated(pixels, torch.tensor([180.0])), pixels.flip(2, 3))


def test_each_image_has_its_own_angle_however_many_there_are():
    pixels = images(2003, side=4).images
    turned = rotated(pixels, torch.arange(2003) % 4 * 90.0)
    assert torch.equal(turned[2002], pixels[2002].rot90(2002 % 4, (1, 2)))
    assert rotated(pixels[:0], torch.zeros(0)).shape == (0, 1, 4, 4)

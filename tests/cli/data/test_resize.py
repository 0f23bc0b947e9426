"""Images are resized without changing their proportions."""

import numpy as np
import pytest
import torch
from PIL import Image

from tutelage.errors import UsageError
from tutelage_cli.data.resize import Cut, Size, centre_cut, covering


@pytest.mark.parametrize(
    ("old", "new", "cut"),
    [
        (Size(10, 20), Size(5, 5), Cut(0, 5, 10, 10)),
        (Size(20, 10), Size(5, 5), Cut(5, 0, 10, 10)),
        (Size(12, 12), Size(2, 4), Cut(3, 0, 6, 12)),
        (Size(1, 100), Size(100, 1), Cut(0, 49, 1, 1)),
        (Size(7, 5), Size(7, 5), Cut(0, 0, 7, 5)),
    ],
)
def test_the_cut_is_central_and_as_large_as_can_be(old, new, cut):
    assert centre_cut(old, new) == cut


def test_halving_equals_what_pillow_does_within_rounding():
    draws = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (1, 1, 16, 24), generator=draws).to(torch.uint8)
    ours = covering(pixels, Size(8, 8))[0, 0].int()
    cut = Image.fromarray(np.asarray(pixels[0, 0, :, 4:20]))
    theirs = torch.tensor(np.asarray(cut.resize((8, 8), Image.Resampling.BILINEAR))).int()
    assert (ours - theirs).abs().max() <= 1


def test_images_of_the_size_asked_for_stay_as_they_are():
    pixels = torch.arange(2 * 12).view(2, 1, 3, 4).to(torch.uint8)
    same = covering(pixels, Size(3, 4))
    assert torch.equal(same, pixels)
    assert same.data_ptr() != pixels.data_ptr()


def test_a_size_of_nothing_is_refused():
    with pytest.raises(UsageError, match=r"\(4, 4\) cannot be resized to \(0, 4\) pixels"):
        covering(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), Size(0, 4))

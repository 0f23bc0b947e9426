"""Where masks on backgrounds are is measured rightly, on masks whose place is known."""

import pytest
import torch
from torch import Tensor, nn

from papers.raghu2021commentaries.masks_backgrounds import centres_in_arm, share_in_box
from tests.cli.data.made_up import splits
from tutelage.teachers import AttentionMask, Plain, RandomMask
from tutelage_cli.data.batches import Batches, CollateImages

SIDE = 12
BOX = torch.tensor([[2, 4, 6, 10]])


class OnePixel(nn.Module):
    """Logits that are high at one pixel."""

    def forward(self, images: Tensor) -> Tensor:
        logits = torch.zeros(len(images), 1, SIDE, SIDE)
        logits[:, 0, 3, 8] = 50
        return logits


def images() -> Batches:
    """Nine images to look at."""
    made = splits(train=9, test=9, classes=3, channels=3, side=SIDE, name="toys").test
    half = torch.full((3,), 0.5)
    return Batches(made, 4, 0, CollateImages(half, half), torch.device("cpu"))


@pytest.mark.parametrize(
    ("place", "inside"),
    [
        ((1.6, 3.6), 1.0),  # just within the box's first pixel, whose edge is at 1.5, 3.5
        ((5.4, 9.4), 1.0),  # just within its last one
        ((1.4, 5.0), 0.0),
        ((5.6, 5.0), 0.0),
        ((3.0, 3.4), 0.0),
        ((3.0, 9.6), 0.0),
    ],
)
def test_a_place_is_in_a_box_up_to_the_edges_of_its_pixels(place, inside):
    assert share_in_box(BOX, torch.tensor([place])) == inside


def test_the_share_is_over_images():
    places = torch.tensor([[3.0, 5.0], [0.0, 0.0], [4.0, 9.0], [3.0, 11.0]])
    assert share_in_box(BOX.expand(4, 4), places) == 0.5


def test_a_mask_is_where_its_network_points():
    at = centres_in_arm(AttentionMask(OnePixel(), sigma=2.0), images(), 0)
    torch.testing.assert_close(at, torch.tensor([3.0, 8.0]).expand(9, 2))


def test_without_masks_an_image_is_seen_about_its_middle():
    assert torch.equal(centres_in_arm(Plain(), images(), 0), torch.full((9, 2), 5.5))


def test_random_masks_are_anywhere_and_the_same_for_a_seed():
    at = centres_in_arm(RandomMask(sigma=2.0), images(), 0)
    assert ((at >= -0.5) & (at < SIDE - 0.5)).all()
    assert len(at.unique(dim=0)) == 9
    assert torch.equal(at, centres_in_arm(RandomMask(sigma=2.0), images(), 0))

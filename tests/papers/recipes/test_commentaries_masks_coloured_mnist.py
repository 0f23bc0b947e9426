"""Where masks are is measured rightly, on masks whose place is known."""

import pytest
import torch
from torch import Tensor, nn

from papers.raghu2021commentaries.masks_coloured_mnist import MaskEvaluation
from tutelage.teachers import AttentionMask
from tutelage.types import Batch

SIDE = 8
CORNERS = torch.tensor([[1.5, 1.5], [5.5, 5.5]])


class InkOf(nn.Module):
    """Logits that are high where one channel has ink."""

    def __init__(self, channel: int) -> None:
        super().__init__()
        self.channel = channel

    def forward(self, images: Tensor) -> Tensor:
        return 50 * images[:, [self.channel]]


def two_images() -> MaskEvaluation:
    """Red above on the left and blue below on the right, and the other way round."""
    images = torch.zeros(2, 3, SIDE, SIDE)
    for image, (red, blue) in zip(images, [(0, 4), (4, 0)], strict=True):
        image[0, red : red + 4, red : red + 4] = 1
        image[2, blue : blue + 4, blue : blue + 4] = 1
    rows = torch.arange(2)
    return MaskEvaluation([Batch(images, rows, rows)], CORNERS, CORNERS.flip(0), SIDE)


@pytest.mark.parametrize(("channel", "share"), [(0, 1.0), (2, 0.0)])
def test_masks_on_a_digit_are_counted_as_on_that_digit(channel, share):
    found = two_images().measure(AttentionMask(InkOf(channel), sigma=2.0))
    assert found["near_red"] == found["in_red"] == share
    apart = float((CORNERS[0] - CORNERS[1]).norm())
    at_red, at_blue = (0.0, apart) if channel == 0 else (apart, 0.0)
    assert found["red_distance"] == pytest.approx(at_red, abs=1e-4)
    assert found["blue_distance"] == pytest.approx(at_blue, abs=1e-4)


def test_masks_in_the_middle_are_on_neither_digit():
    found = two_images().measure(AttentionMask(InkOf(1), sigma=2.0))  # no ink at all
    assert found["near_red"] == 0.0
    assert found["red_distance"] == pytest.approx(found["blue_distance"], rel=1e-5)

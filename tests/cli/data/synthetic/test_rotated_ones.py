"""Ones are turned by the angles of their class, and the angle is kept."""

import pytest
import torch

from tests.cli.data.made_up import images
from tutelage.errors import UsageError
from tutelage_cli.data.synthetic.rotated_ones import (
    OVERLAPPING,
    SEPARATE,
    Degrees,
    rotated,
    rotated_ones,
)


@pytest.mark.parametrize("degrees", [SEPARATE, OVERLAPPING])
def test_angles_fill_the_range_of_the_class(degrees):
    made = rotated_ones(images(), 4000, degrees=degrees, seed=0)
    labels, turn = made.images.labels, made.facts["degrees"]
    assert abs(labels.float().mean() - 0.5) < 0.03
    for label, sign in ((1, 1), (0, -1)):
        angles = turn[labels == label] * sign
        assert degrees.lowest <= angles.min() < degrees.lowest + 0.5
        assert degrees.highest - 0.5 < angles.max() <= degrees.highest
        assert abs(angles.mean() - sum(degrees) / 2) < 1


def test_the_image_is_the_base_digit_turned_by_the_kept_angle():
    source = images()
    made = rotated_ones(source, 20, degrees=SEPARATE, seed=1)
    base = source.rows(made.facts["base"] - 100)
    assert base.labels.unique().tolist() == [1]
    assert torch.equal(made.images.images, rotated(base.images, made.facts["degrees"]))


def test_the_same_seed_makes_the_same_images():
    first, second, other = (
        rotated_ones(images(), 20, degrees=SEPARATE, seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(first.images.images, second.images.images)
    assert not torch.equal(first.facts["degrees"], other.facts["degrees"])


def test_a_source_without_ones_and_a_range_upside_down_are_refused():
    with pytest.raises(UsageError, match=r"toys has no images of the class '1'.* there: 0"):
        rotated_ones(images(classes=1), 5, degrees=SEPARATE, seed=0)
    with pytest.raises(UsageError, match=r"the range of angles is 45..15 degrees; allowed"):
        rotated_ones(images(), 5, degrees=Degrees(45, 15), seed=0)

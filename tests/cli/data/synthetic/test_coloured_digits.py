"""A red and a blue digit lie where the facts say, and the red one is the label."""

import pytest
import torch

from tests.cli.data.made_up import images
from tutelage.errors import UsageError
from tutelage_cli.data.synthetic.coloured_digits import coloured_digits


def test_each_digit_fills_its_own_quadrant_in_its_own_channel():
    source = images(side=8)
    made = coloured_digits(source, 50, side=16, seed=0)
    pixels = made.images.images
    assert pixels.shape == (50, 3, 16, 16)
    assert not pixels[:, 1].any()
    for colour, channel in (("red", 0), ("blue", 2)):
        base = source.rows(made.facts[f"{colour}_base"] - 100)
        labels = made.images.labels if colour == "red" else made.facts["blue_label"]
        assert torch.equal(base.labels, labels)
        for row, quadrant in enumerate(made.facts[f"{colour}_quadrant"].tolist()):
            top, left = 8 * (quadrant // 2), 8 * (quadrant % 2)
            expected = torch.zeros(16, 16, dtype=torch.uint8)
            expected[top : top + 8, left : left + 8] = base.images[row, 0]
            assert torch.equal(pixels[row, channel], expected)
            centre = [top + 3.5, left + 3.5]
            assert made.facts[f"{colour}_centre"][row].tolist() == centre


def test_the_twelve_pairs_of_quadrants_come_equally_often():
    facts = coloured_digits(images(), 6000, side=4, seed=0).facts
    pairs = torch.bincount(facts["red_quadrant"] * 4 + facts["blue_quadrant"], minlength=16)
    same = pairs.view(4, 4).diagonal()
    assert not same.any()
    others = pairs[pairs > 0]
    assert len(others) == 12
    assert (others - 500).abs().max() < 100


def test_digits_shrink_with_the_side():
    made = coloured_digits(images(side=28), 4, side=28, seed=0)
    assert made.images.images.shape == (4, 3, 28, 28)
    assert set(made.facts["red_centre"].flatten().tolist()) <= {6.5, 20.5}


def test_an_odd_side_and_coloured_digits_are_refused():
    with pytest.raises(UsageError, match="side is 27 pixels; allowed: even"):
        coloured_digits(images(), 4, side=27, seed=0)
    with pytest.raises(UsageError, match=r"\(60, 3, 8, 8\); give at least one grey"):
        coloured_digits(images(channels=3), 4, side=28, seed=0)

"""Some labels become another class of the task, or some images lose their order."""

import pytest
import torch

from papers.data.few_shot.episodes import UNSPOILT, Spoiling
from tests.cli.data.made_up import images
from tutelage.errors import UsageError


def support(count=2000):
    return images(count, channels=3, side=4).images, torch.arange(count) % 5


def test_spoilt_labels_are_other_classes_of_the_task_equally_often():
    pixels, targets = support()
    spoilt = Spoiling("labels", 0.4)(pixels, targets, 5, seed=0)
    assert torch.equal(spoilt.images, pixels)
    assert torch.equal(spoilt.targets != targets, spoilt.chosen)
    assert abs(spoilt.chosen.float().mean() - 0.4) < 0.04
    moves = torch.bincount((spoilt.targets - targets)[spoilt.chosen] % 5, minlength=5)
    assert moves[0] == 0
    assert (moves[1:] - 200).abs().max() < 50


def test_spoilt_images_have_the_same_pixels_in_another_order():
    pixels, targets = support(200)
    before = pixels.clone()
    spoilt = Spoiling("images", 0.4)(pixels, targets, 5, seed=0)
    assert torch.equal(pixels, before)
    assert torch.equal(spoilt.targets, targets)
    same = (spoilt.images == pixels).flatten(1).all(1)
    assert torch.equal(same, ~spoilt.chosen)
    for row in spoilt.chosen.nonzero().flatten().tolist():
        colours = [
            sorted(image[row].flatten(1).T.tolist()) for image in (spoilt.images, pixels)
        ]
        assert colours[0] == colours[1]


@pytest.mark.parametrize("kind", ["labels", "images"])
def test_the_seed_decides(kind):
    first, second, other = (Spoiling(kind, 0.5)(*support(50), 5, seed=s) for s in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first.chosen, other.chosen)


def test_nothing_is_spoilt_by_default():
    pixels, targets = support(50)
    assert not UNSPOILT(pixels, targets, 5, seed=0).chosen.any()


def test_unknown_kinds_and_rates_are_refused():
    with pytest.raises(UsageError, match=r"unknown spoiling 'label'. Did you mean 'labels'"):
        Spoiling("label", 0.4)
    with pytest.raises(UsageError, match=r"rate of spoiling 'images' is 1.5; allowed: 0\.\.1"):
        Spoiling("images", 1.5)
    with pytest.raises(UsageError, match=r"rate of spoiling 'none' is 0.1; allowed: 0"):
        Spoiling("none", 0.1)

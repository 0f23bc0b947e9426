"""Every object gets a background of the category that its class is mapped to."""

import numpy as np
import pytest
import torch

from tests.cli.data.made_up import images
from tutelage.errors import UsageError
from tutelage_cli.data.images import Described
from tutelage_cli.data.synthetic.compositing import (
    composite,
    drawn_mapping,
    on_backgrounds,
    rolled,
)


def flat(values):
    return torch.tensor(values, dtype=torch.uint8).view(-1, 1, 1, 1)


def test_a_composite_is_the_weighted_mean_rounded():
    front, behind, mask = flat([200, 200, 200, 7]), flat([100, 100, 100, 8]), [255, 0, 128, 127]
    got = composite(front, flat(mask)[:, 0], behind).flatten().tolist()
    assert got == [200, 100, round(100 + 100 * 128 / 255), 8]


def test_no_two_classes_share_a_category_and_the_seed_decides():
    mapping = drawn_mapping(200, 365, seed=42)
    assert len(set(mapping.tolist())) == 200
    assert 0 <= int(mapping.min()) <= int(mapping.max()) < 365
    np.random.seed(42)  # noqa: NPY002
    old = np.random.choice(365, 200, replace=False)  # noqa: NPY002
    assert mapping.tolist() == old.tolist()
    assert mapping.tolist() != drawn_mapping(200, 365, seed=43).tolist()


def test_a_class_is_rolled_to_the_category_of_the_class_before():
    assert rolled(torch.tensor([7, 8, 9])).tolist() == [9, 7, 8]


def objects(count=30, side=8):
    whole = images(count, classes=3, channels=3, side=side)
    mask = torch.zeros(count, side, side, dtype=torch.uint8)
    mask[:, 2:4, 2:4] = 255
    return Described(whole, {"mask": mask, "hue": torch.arange(count)})


def test_the_background_is_of_the_mapped_category_and_only_behind():
    front, behind = objects(), images(50, classes=5, channels=3, seed=9)
    made = on_backgrounds(front, behind, torch.tensor([4, 0, 2]), seed=1)
    labels = front.images.labels
    assert torch.equal(made.facts["background"], torch.tensor([4, 0, 2])[labels])
    rows = made.facts["background_id"] - 100
    assert torch.equal(behind.labels[rows], made.facts["background"])
    inside = made.facts["mask"].bool()[:, None].expand(-1, 3, -1, -1)
    pixels = made.images.images
    assert torch.equal(pixels[inside], front.images.images[inside])
    assert torch.equal(pixels[~inside], behind.images[rows][~inside])
    assert torch.equal(made.images.ids, front.images.ids)
    assert torch.equal(made.facts["hue"], front.facts["hue"])
    again = on_backgrounds(front, behind, torch.tensor([4, 0, 2]), seed=1)
    assert torch.equal(again.images.images, pixels)


def test_every_image_of_a_category_is_drawn_about_equally_often():
    front, behind = objects(3000, side=4), images(50, classes=5, channels=3, side=4)
    made = on_backgrounds(front, behind, torch.tensor([4, 4, 4]), seed=1)
    drawn = torch.bincount(made.facts["background_id"] - 100, minlength=50)
    assert (drawn > 0).sum() == 10
    assert (drawn[drawn > 0] - 300).abs().max() < 80


def test_backgrounds_are_brought_to_the_objects_size():
    made = on_backgrounds(
        objects(), images(9, classes=3, channels=3, side=12), torch.arange(3), seed=0
    )
    assert made.images.images.shape == (30, 3, 8, 8)


def test_what_does_not_fit_together_is_refused():
    behind = images(9, classes=5, channels=3)
    with pytest.raises(UsageError, match=r"mapping \[0, 1\] does not give each of the 3"):
        on_backgrounds(objects(), behind, torch.tensor([0, 1]), seed=0)
    with pytest.raises(UsageError, match=r"a category in 0\.\.4"):
        on_backgrounds(objects(), behind, torch.tensor([0, 1, 5]), seed=0)
    with pytest.raises(UsageError, match="has no image of category '4'"):
        on_backgrounds(objects(), behind.rows(torch.arange(4)), torch.tensor([0, 1, 4]), seed=0)
    with pytest.raises(UsageError, match="toys has 1 channels; allowed: 3"):
        on_backgrounds(objects(), images(9), torch.arange(3), seed=0)
    with pytest.raises(UsageError, match="4 classes cannot each have one of 3 background"):
        drawn_mapping(4, 3, seed=0)

"""Sets are cut by class, and classes are numbered anew."""

import pytest
import torch

from papers.data.few_shot.benchmarks import (
    only,
    those_with_images,
    train_and_test,
)
from tests.cli.data.made_up import images, splits
from tutelage.errors import UsageError


def test_kept_classes_are_numbered_in_the_order_given():
    whole = images(20, classes=5)
    part = only(whole, ["4", "1"])
    assert part.classes == ("4", "1")
    assert part.ids.tolist() == [101, 104, 106, 109, 111, 114, 116, 119]
    assert part.labels.tolist() == [1, 0] * 4
    assert torch.equal(part.images, whole.images[part.ids - 100])
    with pytest.raises(UsageError, match="toys has no class '7'"):
        only(whole, ["7"])


def test_only_classes_with_images_are_listed():
    assert those_with_images(images(3, classes=5)) == ("0", "1", "2")


def test_joined_parts_have_ids_of_their_own():
    both = train_and_test(splits(train=6, test=4))
    assert both.ids.tolist() == list(range(100, 110))
    assert torch.equal(both.images[6:], splits(train=6, test=4).test.images)

"""Sets are cut by class, and classes are numbered anew."""

import pytest
import torch

from papers.data.few_shot.class_sets import (
    joined,
    only,
    those_with_images,
    with_quarter_turns,
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
    both = joined(splits(train=6, test=4))
    assert both.ids.tolist() == list(range(100, 110))
    assert torch.equal(both.images[6:], splits(train=6, test=4).test.images)


def test_turned_classes_are_new_classes():
    whole = images(6, classes=3)
    turned = with_quarter_turns(whole)
    assert len(turned.classes) == len(set(turned.classes)) == 12
    assert len(turned.ids.unique()) == 24
    for row in range(24):
        turn, label = divmod(int(turned.labels[row]), 3)
        source = int(turned.ids[row]) // 4 - 100
        assert int(turned.ids[row]) % 4 == turn
        assert int(whole.labels[source]) == label
        assert torch.equal(turned.images[row], whole.images[source].rot90(turn, (1, 2)))
    with pytest.raises(UsageError, match=r"4x8 pixels .* allowed: square"):
        with_quarter_turns(images_of_two_sides())


def images_of_two_sides():
    square = images(2)
    return type(square)(
        square.images[..., :4], square.labels, square.ids, square.classes, square.name
    )

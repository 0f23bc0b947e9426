"""Tests of labelled images and their splits."""

import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits

CLASSES = ("cat", "dog", "emu")


def image_set(labels=(0, 1, 2, 1), classes=CLASSES, channels=3):
    rows = len(labels)
    images = torch.arange(rows).view(-1, 1, 1, 1).expand(-1, channels, 2, 2).to(torch.uint8)
    ids = torch.arange(rows) + 100
    return ImageSet(images, torch.tensor(labels), ids, classes, "toy")


def test_chosen_rows_keep_their_ids_and_order():
    chosen = image_set().rows(torch.tensor([3, 0]))
    assert len(chosen) == 2
    assert chosen.ids.tolist() == [103, 100]
    assert chosen.labels.tolist() == [1, 0]
    assert chosen.images[:, 0, 0, 0].tolist() == [3, 0]


def test_other_labels_leave_images_and_ids_alone():
    whole = image_set()
    changed = whole.with_labels(torch.tensor([2, 2, 2, 2]))
    assert changed.labels.tolist() == [2, 2, 2, 2]
    assert changed.images is whole.images
    assert torch.equal(changed.ids, whole.ids)
    assert whole.labels.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize(("label", "row"), [(-1, 1), (255, 1), (3, 1)])
def test_a_label_that_is_no_class_is_named_with_its_row(label, row):
    with pytest.raises(UsageError, match=rf"row {row} of toy has label {label}; allowed: 0..2"):
        image_set(labels=(0, label, 1))


def test_wrong_shapes_and_types_are_refused():
    good = image_set()
    with pytest.raises(UsageError, match=r"labels of toy .* one for each image"):
        good.with_labels(torch.tensor([0, 1]))
    with pytest.raises(UsageError, match=r"labels of toy are torch.int32"):
        good.with_labels(good.labels.int())
    with pytest.raises(UsageError, match=r"give torch.uint8 of shape \[N, C, H, W\]"):
        ImageSet(good.images.float(), good.labels, good.ids, CLASSES, "toy")
    with pytest.raises(UsageError, match="ids of toy"):
        ImageSet(good.images, good.labels, good.ids[:1], CLASSES, "toy")


def test_splits_must_agree_in_classes_and_shape():
    train = image_set()
    assert len(Splits(train, image_set(labels=(0,))).test) == 1
    with pytest.raises(UsageError, match="both must list the same"):
        Splits(train, image_set(labels=(0,), classes=("cat", "dog")))
    with pytest.raises(UsageError, match="one size"):
        Splits(train, image_set(channels=1))

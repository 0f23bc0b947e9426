"""ImageNet's folder is opened as it is unpacked, without its images being read."""

import shutil

import numpy as np
import pytest
import torch
from scipy.io import savemat

from papers.data.published.imagenet import first_classes, open_imagenet
from tests.cli.data.published.layouts import lines, picture
from tutelage.errors import UsageError

NAMES = ("n03", "n01", "n02")
"""classes by their numbers in the development kit, which are not in the order of names"""
TRUTH = [2, 3, 1, 1]


def unpacked(root, names=NAMES):
    for name in names:
        for row in range(2):
            picture(root / "train" / name / f"{name}_{row}.JPEG", (10, 20, 30), (20 + row, 16))
    return root


def flat(root, truth=TRUTH):
    unpacked(root)
    for row in range(4):
        file = root / "val" / f"ILSVRC2012_val_{row + 1:08d}.JPEG"
        picture(file, (40 * row, 0, 0), (20, 12))
    kit = root / "ILSVRC2012_devkit_t12" / "data"
    lines(kit / "ILSVRC2012_validation_ground_truth.txt", truth)
    kinds = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("num_children", "O")]
    rows = [(n, name, "a, b", 0) for n, name in enumerate((*NAMES, "n09"), 1)]
    savemat(kit / "meta.mat", {"synsets": np.array(rows, dtype=kinds)})
    return root


def test_class_folders_of_both_parts(tmp_path):
    root = unpacked(tmp_path)
    picture(root / "val" / "n02" / "one.JPEG", (1, 2, 3))
    picture(root / "val" / "n03" / "two.JPEG", 9)
    (root / "test").mkdir()  # published without labels
    train, val = open_imagenet(root)
    assert train.classes == val.classes == ("n01", "n02", "n03")
    assert train.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert val.labels.tolist() == [1, 2]
    assert train[1][0].shape == (3, 16, 21)
    assert val[1][0].shape[0] == 3


def test_validation_images_as_published_take_their_classes_from_the_development_kit(tmp_path):
    train, val = open_imagenet(flat(tmp_path))
    names = [val.classes[label] for label in val.labels.tolist()]
    assert names == ["n01", "n02", "n03", "n03"]  # the numbers 2, 3, 1, 1
    assert val.classes == train.classes
    reds = [int(val[row][0][0].float().mean().round()) for row in range(4)]
    assert reds == pytest.approx([0, 40, 80, 120], abs=3)


def test_the_first_classes_keep_the_ids_of_their_images(tmp_path):
    _, val = open_imagenet(flat(tmp_path))
    kept = first_classes(val.rows(torch.tensor([3, 1, 0])), 2)
    assert kept.ids.tolist() == [1, 0]
    assert kept.classes == ("n01", "n02")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: shutil.rmtree(root / "train"), "holds no train"),
        (lambda root: shutil.rmtree(root / "val"), "holds no val"),
        (lambda root: shutil.rmtree(root / "ILSVRC2012_devkit_t12"), "development kit"),
        (lambda root: flat(root, TRUTH[:3]), "holds 4 images .* lists 3"),
        (lambda root: flat(root, [2, 3, 1, 77]), "the class 77, which meta.mat"),
        (lambda root: flat(root, ["a", 3, 1, 1]), "no number"),
        (lambda root: flat(root, [4, 3, 1, 1]), "n09"),
        (
            lambda root: next(root.rglob("meta.mat")).write_bytes(b"nonsense" * 40),
            "not the list of classes",
        ),
        (lambda root: picture(root / "val" / "n77" / "a.JPEG", 3), "n77"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_told(tmp_path, spoil, said):
    root = flat(tmp_path)
    spoil(root)
    with pytest.raises(UsageError, match=said):
        open_imagenet(root)

"""Birds come with masks and boxes that fit the new images."""

import pytest
import torch

from papers.data.published.cub import read_cub
from tests.cli.data.published.layouts import cub, lines, picture
from tutelage.errors import UsageError
from tutelage_cli.data.resize import Size

SQUARE = Size(16, 16)


@pytest.mark.parametrize("beside", [False, True])
def test_the_parts_are_the_official_ones_with_a_share_held_out(beside, tmp_path):
    parts = read_cub(cub(tmp_path, beside=beside), SQUARE, held_out=0.2, seed=0)
    assert [len(part) for part in parts] == [12, 3, 15]
    assert parts.train.images.classes == ("Bird_0", "Bird_1", "Bird_2")
    ids = torch.cat([part.images.ids for part in parts])
    assert sorted(ids.tolist()) == list(range(1, 31))
    for part in parts:
        species = (part.images.ids - 1) // 10
        assert torch.equal(part.images.labels, species)
        green = part.images.images[:, 1].float().mean((1, 2))
        assert (green - 80 * species).abs().max() < 6  # JPEG
    assert (parts.test.images.ids - 1).remainder(10).min() == 5


def test_mask_and_box_are_cut_and_scaled_with_the_picture(tmp_path):
    home = cub(tmp_path)
    # 24x16 loses 4 columns on either side and becomes 32x32: twice as large.
    test = read_cub(home, Size(32, 32), held_out=0.2, seed=0).test
    assert test.facts["box"].unique(dim=0).tolist() == [[8, 4, 24, 28]]
    mask = test.facts["mask"][0]
    assert mask[10:22, 6:26].unique().tolist() == [255]
    assert not mask[:6].any()
    assert not mask[:, 31].any()


def test_a_box_is_cut_at_the_rim(tmp_path):
    home = cub(tmp_path)
    lines(home / "bounding_boxes.txt", [f"{n} 0.0 4.0 24.0 8.0" for n in range(1, 31)])
    test = read_cub(home, SQUARE, held_out=0.2, seed=0).test
    assert test.facts["box"][0].tolist() == [4, 0, 12, 16]


def test_what_is_missing_is_named_with_the_way_out(tmp_path):
    with pytest.raises(
        UsageError, match=r"holds no images.txt, .*CUB-200-2011; give the folder"
    ):
        read_cub(tmp_path, SQUARE, held_out=0.2, seed=0)
    home = cub(tmp_path)
    (home / "segmentations").rename(tmp_path / "elsewhere")
    with pytest.raises(
        UsageError, match=r"holds no segmentations or .*unpack segmentations.tgz"
    ):
        read_cub(home, SQUARE, held_out=0.2, seed=0)


def test_lists_and_sizes_that_disagree_are_refused(tmp_path):
    home = cub(tmp_path)
    picture(home / "segmentations/001.Bird_0/Bird_0_0003.png", 255, (16, 24))
    with pytest.raises(UsageError, match=r"mask of .*Bird_0_0003.jpg has the size \(24, 16\)"):
        read_cub(home, SQUARE, held_out=0.2, seed=0)
    lines(home / "bounding_boxes.txt", [f"{n} 6.0 4.0 12.0" for n in range(1, 31)])
    with pytest.raises(UsageError, match=r"has the box '6.0 4.0 12.0'; allowed: x, y"):
        read_cub(home, SQUARE, held_out=0.2, seed=0)
    lines(home / "train_test_split.txt", ["1 1", "2 0"])
    with pytest.raises(
        UsageError, match=r"train_test_split.txt has 2 numbers, .*images.txt \(30\)"
    ):
        read_cub(home, SQUARE, held_out=0.2, seed=0)


def test_the_order_of_the_lists_does_not_matter(tmp_path):
    home = cub(tmp_path)
    first = read_cub(home, SQUARE, held_out=0.2, seed=0)
    file = home / "image_class_labels.txt"
    lines(file, reversed(file.read_text("utf-8").splitlines()))
    again = read_cub(home, SQUARE, held_out=0.2, seed=0)
    assert torch.equal(first.train.images.labels, again.train.images.labels)

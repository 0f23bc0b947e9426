"""Places are read by category, from the official lists."""

import pytest

from papers.data.published.cub import place_categories, read_places
from tests.cli.data.published.layouts import lines, places
from tutelage.errors import UsageError
from tutelage_cli.data.resize import Size

NAMES = ("place_0", "place_1/outdoor", "place_2", "place_3", "place_4")


@pytest.mark.parametrize("lists", ["", "filelist_places365-standard"])
def test_all_pictures_are_read_in_the_order_of_the_list(lists, tmp_path):
    places(tmp_path)
    for name in ("places365_val.txt", "categories_places365.txt"):
        (tmp_path / lists).mkdir(exist_ok=True)
        (tmp_path / name).rename(tmp_path / lists / name)
    assert place_categories(tmp_path) == NAMES
    found = read_places(tmp_path, Size(8, 8), categories=None)
    assert found.classes == NAMES
    assert found.images.shape == (20, 3, 8, 8)
    assert found.labels.tolist() == list(range(5)) * 4
    red = found.images[:, 0].float().mean((1, 2))
    assert (red - 40 * found.labels).abs().max() < 6  # JPEG


def test_some_categories_keep_their_numbers(tmp_path):
    found = read_places(places(tmp_path), Size(8, 8), categories=[3, 1])
    assert found.labels.tolist() == [1, 3] * 4
    assert found.ids.tolist() == [1, 3, 6, 8, 11, 13, 16, 18]
    with pytest.raises(UsageError, match=r"no category 5; allowed: 0\.\.4"):
        read_places(tmp_path, Size(8, 8), categories=[5])


def test_what_is_missing_or_out_of_order_is_named(tmp_path):
    with pytest.raises(
        UsageError, match=r"categories_places365.txt or filelist.*unpack filelist"
    ):
        place_categories(tmp_path)
    places(tmp_path)
    (tmp_path / "val_large").rename(tmp_path / "val_256")
    with pytest.raises(UsageError, match=r"holds no val_large, .*unpack val_large.tar"):
        read_places(tmp_path, Size(8, 8), categories=None)
    lines(tmp_path / "categories_places365.txt", ["/a/x 0", "/b/y 2"])
    with pytest.raises(UsageError, match=r"does not number its categories 0, 1, 2"):
        place_categories(tmp_path)

"""Pictures of any size come out upright in one size; broken ones are named."""

import numpy as np
import pytest
from PIL import Image

from papers.data.published.layout import read_pictures
from tests.cli.data.published.layouts import deep_grey, picture
from tutelage.errors import UsageError
from tutelage_cli.data.resize import Size


def read(*files, channels=3):
    return read_pictures(files, Size(8, 8), channels=channels, where="list.txt")


def test_grey_and_coloured_pictures_become_rgb_of_one_size(tmp_path):
    picture(tmp_path / "a.png", 7, (30, 20))
    picture(tmp_path / "b.png", (1, 2, 3), (8, 40))
    images = read(tmp_path / "a.png", tmp_path / "b.png")
    assert images.shape == (2, 3, 8, 8)
    assert images[0].unique().tolist() == [7]
    assert images[1, :, 4, 4].tolist() == [1, 2, 3]


def test_pictures_are_turned_upright_before_they_are_cut(tmp_path):
    stored = np.zeros((8, 16, 3), np.uint8)
    stored[:, :8, 0] = 255
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(stored).save(tmp_path / "phone.png", exif=turned)
    image = read(tmp_path / "phone.png")[0]
    assert image[0, 0].unique().tolist() == [255]
    assert image[0, -1].unique().tolist() == [0]


def test_a_broken_a_missing_and_a_deep_picture_are_named_with_their_row(tmp_path):
    picture(tmp_path / "a.png", 7)
    (tmp_path / "b.png").write_bytes((tmp_path / "a.png").read_bytes()[:40])
    deep_grey(tmp_path / "c.png")
    for name, reason in (("b", "cannot be read"), ("c", "over 8 bits"), ("d", "cannot be")):
        with pytest.raises(
            UsageError, match=rf"{name}\.png \(picture 2 of list.txt\).*{reason}"
        ):
            read(tmp_path / "a.png", tmp_path / f"{name}.png")


def test_colour_where_all_is_grey_and_an_empty_list_are_refused(tmp_path):
    picture(tmp_path / "b.png", (1, 2, 3))
    with pytest.raises(UsageError, match=r"b.png is in colour; allowed: grey"):
        read(tmp_path / "b.png", channels=1)
    with pytest.raises(UsageError, match="names no picture"):
        read()

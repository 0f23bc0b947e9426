"""Tests of the reading of single pictures."""

import io
from pathlib import Path

import joblib
import numpy as np
import pytest
from PIL import Image

from tutelage.errors import UsageError
from tutelage_cli.data import decode as decoding
from tutelage_cli.data.decode import BrokenImageError, decode, gather, stack
from tutelage_cli.data.reading import STRICT, Reading


def encoded(picture, kind="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def decoded(stored, root=Path()):
    return decode(stored, where="row 3 of toy", root=root)


@pytest.mark.parametrize("mode", ["1", "L", "LA"])
def test_grey_pictures_have_one_channel(mode):
    assert decoded(encoded(Image.new(mode, (4, 3)))).shape == (1, 3, 4)


@pytest.mark.parametrize("mode", ["P", "RGB", "RGBA"])
def test_coloured_pictures_have_three_channels(mode):
    assert decoded(encoded(Image.new(mode, (4, 3)))).shape == (3, 3, 4)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "BMP"])
def test_pixels_come_back_exactly(kind):
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    options = {"lossless": True} if kind == "WEBP" else {}
    stored = encoded(Image.fromarray(pixels), kind, **options)
    assert np.array_equal(decoded(stored), pixels.transpose(2, 0, 1))


def test_paths_bytes_and_mappings_are_the_same_picture(tmp_path):
    data = encoded(Image.new("L", (2, 2), 9))
    (tmp_path / "a.png").write_bytes(data)
    stored = [data, "a.png", tmp_path / "a.png", {"bytes": data, "path": None}]
    stored.append({"bytes": None, "path": "a.png"})
    assert all((decoded(one, tmp_path) == 9).all() for one in stored)


def test_photos_are_turned_upright():
    photo = Image.new("RGB", (12, 8), (250, 0, 0))
    photo.paste((0, 0, 250), (6, 0, 12, 8))
    exif = Image.Exif()
    exif[274] = 6  # stored lying on its left side
    pixels = decoded(encoded(photo, "JPEG", exif=exif, quality=95))
    assert pixels.shape == (3, 12, 8)
    assert pixels[0, :4].min() > 200
    assert pixels[2, 8:].min() > 200


def test_sixteen_bits_a_channel_are_refused_with_the_way_out():
    deep = Image.fromarray(np.arange(0, 65536, 1040, dtype=np.uint16)[:16].reshape(4, 4))
    with pytest.raises(UsageError, match=r"row 3 of toy has over 8 bits .*I;16.* save them as"):
        decoded(encoded(deep))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_truncated_picture_is_named(kind):
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    with pytest.raises(
        UsageError, match=r"row 3 of toy cannot be read as an image .*remove it"
    ):
        decoded(data[: len(data) // 2])
    with pytest.raises(
        UsageError, match=r"row 3 of toy cannot be read .*cannot identify image"
    ):
        decoded(b"no picture at all")


@pytest.mark.parametrize("stored", [None, 3, {"bytes": None, "path": None}])
def test_what_is_no_picture_is_refused(stored):
    with pytest.raises(UsageError, match="not an image file; name the column"):
        decoded(stored)


def test_all_become_rgb_where_one_is():
    grey, colour = np.full((1, 2, 2), 7, np.uint8), np.zeros((3, 2, 2), np.uint8)
    images = stack(iter([("a", grey), ("b", colour), ("c", grey)]), 3, where="toy")
    assert images.shape == (3, 3, 2, 2)
    assert images[:, :, 0, 0].tolist() == [[7, 7, 7], [0, 0, 0], [7, 7, 7]]


def test_two_sizes_are_named():
    small, wide = np.zeros((1, 2, 2), np.uint8), np.zeros((1, 2, 5), np.uint8)
    with pytest.raises(UsageError, match=r"a is 2x2 and b is 5x2 \(width x height\)"):
        stack(iter([("a", small), ("b", wide)]), 2, where="toy")
    with pytest.raises(UsageError, match="toy holds no images"):
        stack(iter(()), 0, where="toy")


FRAMES = [Image.new("RGB", (4, 3), (0, 0, shade)) for shade in (10, 120, 240)]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_of_several_frames_is_read_and_said_to_be(kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    film = encoded(FRAMES[0], kind, save_all=True, append_images=FRAMES[1:], **options)
    still = encoded(FRAMES[0], kind, **options)
    pictures = [("row 1", still), ("row 2", film), ("row 3", film)]
    found = gather(pictures, 3, STRICT, where="toy", root=Path())
    assert (found.images == found.images[:1]).all()
    assert found.notes == (
        "2 images have several frames, of which the first is read, in toy: row 2; row 3.",
    )


def test_a_preview_beside_a_photo_is_no_frame():
    photo = encoded(FRAMES[0], "MPO", save_all=True, append_images=FRAMES[1:2])
    assert getattr(Image.open(io.BytesIO(photo)), "is_animated", False)
    assert gather([("row 1", photo)], 1, STRICT, where="toy", root=Path()).notes == ()


@pytest.fixture
def workers(monkeypatch):
    """Threads in place of processes read as few as ten pictures, three at a time."""

    def started(n_jobs, **options):
        return joblib.Parallel(n_jobs, "threading", **options)

    monkeypatch.setattr(decoding, "started_workers", started)
    monkeypatch.setattr(decoding, "SEVERAL", 10)
    monkeypatch.setattr(decoding, "AT_ONCE", 3)
    monkeypatch.setattr(joblib, "cpu_count", lambda: 2)


def shades(count, broken=()):
    for row in range(count):
        stored = encoded(Image.new("RGB", (5 + row % 2, 4), (row, 0, 255 - row)))
        yield f"row {row}", stored[:20] if row in broken else stored


@pytest.mark.usefixtures("workers")
def test_many_pictures_are_those_that_one_process_reads(monkeypatch):
    reading = Reading(broken_images="skip", image_size=3)

    def gathered():
        return gather(shades(20, (4, 17)), 20, reading, where="toy", root=Path())

    several = gathered()
    monkeypatch.setattr(decoding, "SEVERAL", 21)
    alone = gathered()
    assert np.array_equal(several.images, alone.images)
    assert several.rows.tolist() == alone.rows.tolist()
    assert several.notes == alone.notes
    assert "row 4" in several.notes[0]


@pytest.mark.usefixtures("workers")
def test_the_first_of_many_pictures_that_will_not_do_is_named():
    with pytest.raises(BrokenImageError, match=r"row 7 .* --broken-images skip"):
        gather(shades(20, (7, 8)), 20, Reading(image_size=3), where="toy", root=Path())
    with pytest.raises(UsageError, match="row 0 is 5x4 and row 1 is 6x4"):
        gather(shades(20, (7,)), 20, STRICT, where="toy", root=Path())

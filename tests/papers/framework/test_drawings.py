"""What a job shows besides numbers is small, plain, and drawn as it was given."""

import base64
import io
import json
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from PIL import Image

from papers.framework.drawings import LONGEST, apply_masks, grid, image_rows, scatter
from papers.framework.figure import figure

IMAGES = (torch.arange(2 * 3 * 8 * 4) % 256).to(torch.uint8).reshape(2, 3, 8, 4)
GRID = grid(["a $b", "c <d"], torch.eye(2), label="share", rows="own", columns="other")


def drawn(drawing) -> ET.Element:
    """The figure of one panel that shows it, twice the same and from JSON alone."""
    plots = [{"title": "T & U", "arm": "one", "drawing": "it"}]
    content = {"plots": plots, "series": {}, "drawings": {"one": {"it": drawing}}}
    text = figure(content)
    assert text == figure(json.loads(json.dumps(content, allow_nan=False)))
    return ET.fromstring(text)


def decoded(text: str) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(base64.b64decode(text))))


def test_images_are_kept_pixel_for_pixel_and_drawn_under_their_captions():
    masks = torch.ones(2, 1, 8, 4)
    masks[:, :, 4:] = 0
    rows = {"image": IMAGES, "mask": (255 * masks).byte()}
    drawing = image_rows(rows | {"seen": apply_masks(IMAGES, masks)}, ["cat", "<dog>"])
    image, mask, seen = (decoded(drawing["rows"][name][1]) for name in drawing["rows"])
    given = IMAGES[1].permute(1, 2, 0).numpy()
    assert (image == given).all()
    assert mask.shape == (8, 4)
    assert (seen[:4] == given[:4]).all()
    assert not seen[4:].any()
    root = drawn(drawing)
    found = list(root.iter("{http://www.w3.org/2000/svg}image"))
    assert len(found) == 6
    assert float(found[0].attrib["height"]) > float(found[0].attrib["width"])
    assert {"image", "mask", "seen", "cat", "<dog>", "T & U"} <= set(root.itertext())


def test_large_images_are_reduced_in_their_proportions():
    drawing = image_rows({"image": torch.zeros(1, 1, 320, 200, dtype=torch.uint8)}, ["x"])
    assert decoded(drawing["rows"]["image"][0]).shape == (LONGEST, LONGEST * 200 // 320)


def test_a_grid_is_drawn_with_its_names_unless_they_are_too_many():
    assert {"a $b", "c <d", "share", "own", "other"} <= set(drawn(GRID).itertext())
    many = [f"class {n}" for n in range(100)]
    words = set(drawn(grid(many, torch.rand(100, 100), label="share")).itertext())
    assert "share" in words
    assert not words & set(many)


@pytest.mark.parametrize("groups", [2, 12])
def test_points_are_coloured_by_group_with_a_legend(groups):
    names = [f"group {n % groups}" for n in range(24)]
    line = [float(n) for n in range(24)]
    words = set(
        drawn(scatter(line, line, ("x, m", "y"), colours=names, colour="kind")).itertext()
    )
    assert {*names, "x, m", "y", "kind"} <= words


def test_points_are_coloured_by_value_and_one_that_is_not_finite_is_left_out():
    x = [0.0, 1.23456789, math.nan]
    drawing = scatter(x, [0.0, math.inf, 1.0], ("x", "y"), colours=[1.0, 2.0, 3.0], colour="w")
    assert drawing["x"] == [0.0, 1.235, None]
    assert drawing["y"] == [0.0, None, 1.0]
    assert "w" in set(drawn(drawing).itertext())


@pytest.mark.parametrize(
    "make",
    [
        lambda: image_rows({"image": IMAGES}, ["one"]),
        lambda: grid(["a"], torch.eye(2), label="share"),
        lambda: scatter([0.0], [0.0, 1.0], ("x", "y"), colours=["a"], colour="w"),
    ],
)
def test_parts_of_a_drawing_that_do_not_fit_are_refused(make):
    with pytest.raises(ValueError, match=r" for "):
        make()


def test_a_panel_whose_jobs_all_failed_is_left_empty():
    plots = [{"title": "T", "arm": "one", "drawing": "it"}]
    ET.fromstring(figure({"plots": plots, "series": {}, "drawings": {}}))

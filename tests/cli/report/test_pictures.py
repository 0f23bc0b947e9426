"""Pictures inside the page: the pixels are those given, only larger."""

import base64
import io
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from PIL import Image

from tutelage_cli.report import Example, LeastTrusted
from tutelage_cli.report.pictures import MOST, data_uri, gallery


def opened(image: np.ndarray) -> np.ndarray:
    kind, data = data_uri(image).split(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)


def picture(**changes) -> Example:
    fields = {
        "shown": noise(8, 8),
        "id": 12,
        "given": "cat",
        "predicted": "dog",
        "true": "dog",
        "weight": 0.25,
        "loss": 3.5,
    }
    return Example(**{**fields, **changes})


@pytest.mark.parametrize(
    ("shape", "factor"), [((28, 28), 3), ((32, 32, 3), 3), ((8, 8), 10), ((20, 28), 3)]
)
def test_small_pictures_grow_by_a_whole_factor(shape, factor):
    image = noise(*shape)
    grown = opened(image)
    assert grown.shape == (factor * shape[0], factor * shape[1], *shape[2:])
    np.testing.assert_array_equal(grown[::factor, ::factor], image)
    np.testing.assert_array_equal(grown[factor - 1 :: factor, factor - 1 :: factor], image)


def test_pictures_of_middle_size_stay_as_they_are():
    image = noise(100, 90, 3)
    np.testing.assert_array_equal(opened(image), image)


def test_large_pictures_shrink():
    assert opened(noise(400, 200, 3)).shape == (MOST, MOST // 2, 3)


@pytest.mark.parametrize(
    ("true", "kind"), [("dog", "wrong"), ("cat", "right"), (None, "unknown")]
)
def test_a_figure_says_what_is_known(true, kind):
    html = gallery(LeastTrusted(arm="a", items=(picture(true=true),)))
    assert f'class="picture {kind}"' in html
    assert 'alt="Training example 12, labelled cat"' in html
    assert ("<dt>true</dt>" in html) == (true is not None)
    for fact in ("cat", "dog", "0.250", "3.500"):
        assert f"<dd>{fact}</dd>" in html


def test_labels_are_escaped():
    html = gallery(LeastTrusted(arm="a", items=(picture(given='<b>&"x"'),)))
    assert "<b>" not in html
    assert "labelled &lt;b&gt;&amp;&quot;x&quot;" in html


@pytest.mark.parametrize("image", [noise(8, 8, 1), noise(8, 8, 4), noise(8), noise(8, 8) / 255])
def test_other_images_are_refused(image):
    # Under test the annotations refuse such an image first; a user has only this check.
    unchecked = cast("Example", SimpleNamespace(id=12, shown=image))
    with pytest.raises(ValueError, match=r"allowed: uint8 \[H, W\]"):
        Example.__post_init__(unchecked)

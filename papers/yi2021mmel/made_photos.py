"""A few photos that nobody took, laid out like ImageNet, for a first run without it."""

import shutil
from pathlib import Path
from uuid import uuid4

import numpy as np
from PIL import Image

from tutelage_cli.data.cache import cache_folder

NAMES = ("n01", "n02", "n03")
COUNTS = {"train": 8, "val": 4}
"""images of each class"""


def made_photos() -> Path:
    """Stripes of three directions in colours of noise, in JPEG files of many sizes."""
    place = cache_folder() / "recipes" / "made-photos"
    if not place.is_dir():
        fresh = place.with_name(f".{place.name}-{uuid4().hex}")
        _write(fresh)
        try:
            fresh.rename(place)
        except OSError:  # another process was faster
            shutil.rmtree(fresh)
            if not place.is_dir():
                raise
    return place


def _write(place: Path) -> None:
    draws = np.random.default_rng(0)
    for split, count in COUNTS.items():
        for number, name in enumerate(NAMES):
            folder = place / split / name
            folder.mkdir(parents=True)
            for row in range(count):
                _photo(draws, number).save(folder / f"{name}_{row}.JPEG")


def _photo(draws: np.random.Generator, direction: int) -> Image.Image:
    height, width = draws.integers(40, 80, 2)
    down, across = np.mgrid[:height, :width]
    along = (down, across, down + across)[direction]
    stripes = 60 * np.sin(along / 3 + draws.uniform(0, 6))[..., None]
    pixels = draws.uniform(80, 170, 3) + stripes + draws.normal(0, 8, (height, width, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))

"""How the images of a study are shown where its settings do not say."""

import pytest

from tutelage_cli.data.sources import WORDS
from tutelage_cli.train.settings import COLOURED_DIGITS, TrainSettings


@pytest.mark.parametrize(
    ("data", "channels", "augment"),
    [
        ("cifar10", 3, "crop-flip"),
        ("objects-on-backgrounds", 3, "crop-flip"),
        ("my-images", 3, "crop-flip"),
        ("my-images", 1, "none"),
        ("coloured-mnist", 3, "none"),
        ("digits-on-backgrounds", 3, "none"),
    ],
)
def test_no_digit_is_mirrored_unless_that_is_asked_for(data, channels, augment) -> None:
    assert TrainSettings(data=data).augment_or_default(channels) == augment
    asked = TrainSettings(data=data, augment="crop-flip")
    assert asked.augment_or_default(channels) == "crop-flip"


def test_sets_that_are_not_mirrored_are_known_by_name() -> None:
    assert set(COLOURED_DIGITS) <= WORDS.keys()

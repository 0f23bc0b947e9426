"""The files of a run's training images, where each is in one of its own."""

from collections.abc import Sequence
from pathlib import Path

from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import is_named
from tutelage_cli.data.stored import image_files
from tutelage_cli.train.settings import TrainSettings


def files_of_images(settings: TrainSettings) -> list[Sequence[Path]]:
    """The files by id, those of the training and of the test part; none where there are none.

    Where the test part is some of the training part's source, its files are among those.
    """
    if is_named(settings.data):
        return []
    reading = Reading(
        empty_classes=settings.empty_classes,
        image_column=settings.image_column,
        label_column=settings.data_label_column,
    )
    train, test = image_files(settings.data, reading)
    return [train, train if test is None else test] if train else []

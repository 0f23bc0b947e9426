"""What to do with faults of a source; by default it is refused."""

from dataclasses import dataclass
from typing import Literal

from tutelage.errors import UsageError

Broken = Literal["refuse", "skip"]
Empty = Literal["refuse", "keep"]


@dataclass(frozen=True)
class Reading:
    """What to do with unreadable images, empty classes and missing labels.

    Rows that are left out change nothing for the others: ids are the row numbers in the whole
    source, and class numbers those of all its classes.
    """

    broken_images: Broken = "refuse"
    """skip: images that cannot be read are left out and listed"""
    empty_classes: Empty = "refuse"
    """keep: a class folder without images is a class that no example has"""
    missing_labels: Broken = "refuse"
    """skip: rows without a label are left out and listed"""
    ignore_labels: tuple[str, ...] = ()
    """labels that mark rows as unlabelled, such as 255; these rows are left out and listed"""
    image_size: int | None = None
    """pixels a side: the largest square about each image's centre is resized to it; None where
    all images have the same size"""
    whole: bool = False
    """whether a source without a test part is all training part, and its test part empty; a
    fifth of it is the test part otherwise"""

    def __post_init__(self) -> None:
        """Check the size; see the class."""
        if self.image_size is not None and self.image_size < 1:
            raise UsageError(f"--image-size must be at least 1, got {self.image_size}.")


STRICT = Reading()
"""refuses every fault"""

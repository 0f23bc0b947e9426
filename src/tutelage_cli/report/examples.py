"""Single examples for a report, as pictures or as text: plain records."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8

from tutelage_cli.report.lengths import same_length

Pixels = UInt8[np.ndarray, "H W"] | UInt8[np.ndarray, "H W 3"]
"""grey or colour, in bytes"""


@dataclass(frozen=True, eq=False)
class Picture:
    """One training example as a picture; labels are class names."""

    image: Pixels
    id: int
    given: str
    predicted: str
    true: str | None
    weight: float
    loss: float

    def __post_init__(self) -> None:
        shape, kind = self.image.shape, self.image.dtype
        if kind != np.uint8 or len(shape) not in {2, 3} or shape[2:] not in {(), (3,)}:
            raise ValueError(
                f"image of example {self.id} is {kind}{list(shape)}; "
                "allowed: uint8 [H, W] or [H, W, 3]."
            )


@dataclass(frozen=True, eq=False)
class Pictures:
    """The examples of lowest weight in one seed of a taught arm, the lowest first."""

    arm: str
    items: tuple[Picture, ...]


@dataclass(frozen=True)
class Sentence:
    """One training example as text; labels are class names."""

    text: str
    id: int
    given: str
    predicted: str
    true: str | None
    weight: float
    loss: float


@dataclass(frozen=True)
class Sentences:
    """The examples of lowest weight in one seed of a taught arm, the lowest first."""

    arm: str
    items: tuple[Sentence, ...]


@dataclass(frozen=True, eq=False)
class Copied:
    """One training example with its copies and their weights, as of ``WorstCase``."""

    id: int
    given: str
    """Its label, a class name."""
    copies: tuple[Pixels | str, ...]
    """Pictures in bytes, or texts."""
    weights: tuple[float, ...]
    losses: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.copies:
            raise ValueError(f"example {self.id} has no copy; give at least one.")
        owner = f"copies of example {self.id}"
        same_length(owner, len(self.copies), weights=self.weights, losses=self.losses)


@dataclass(frozen=True, eq=False)
class Copies:
    """Some examples of one seed of an arm, each with its copies."""

    arm: str
    examples: tuple[Copied, ...]

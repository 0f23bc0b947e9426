"""Label noise as in Meta-Weight-Net: one draw per example, before training."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from tutelage.errors import UsageError, nearest
from tutelage_cli.data.sources import is_named

SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
"""names of the classes by superclass"""
KINDS = ("none", "uniform", "flip", "flip2", "hierarchical")
HUMAN = "human"
"""not drawn: the labels that people gave (``data.labels``)"""
ANNOTATORS = {
    "aggregate": "aggre_label",
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",
}
"""whose labels there are, to the column of CIFAR-10N: the majority of three people, each of
them, or whoever is wrong"""
_ONLY = {
    HUMAN: ("cifar10", "holds labels of CIFAR-10's training images"),
    "hierarchical": ("cifar100", "needs the superclasses of CIFAR-100"),
}
"""kinds that go with one data set: its name, and why"""
_TARGETS = {"flip": 1, "flip2": 2}
"""how many other classes take the mass that leaves a class"""


def superclasses_of(classes: tuple[str, ...]) -> tuple[int, ...]:
    """The superclass of every class."""
    known = {name: n for n, names in enumerate(SUPERCLASSES.values()) for name in names.split()}
    if set(classes) != set(known) or len(classes) != len(known):
        raise UsageError(
            "label noise 'hierarchical' needs the 100 classes of CIFAR-100, which have "
            f"superclasses, but there are {len(classes)}: {', '.join(classes[:5])}, ...; use "
            "'uniform' or 'flip2'."
        )
    return tuple(known[name] for name in classes)


@dataclass(frozen=True)
class Noise:
    """A kind of label noise and its rate, or whose labels are taken."""

    kind: str
    """one of ``KINDS``, or ``HUMAN``"""
    rate: float
    """probability that a label is drawn anew (uniform) or moved (the others), in 0..1"""
    annotator: str = ""
    """whose labels they are, where people gave them"""

    def __post_init__(self) -> None:
        """Check both fields."""
        if self.kind not in (*KINDS, HUMAN):
            raise UsageError(_unknown(self.kind))
        if self.kind == HUMAN and self.annotator not in ANNOTATORS:
            raise UsageError(
                f"unknown labels '{HUMAN}:{self.annotator}'. "
                f"{nearest(self.annotator, ANNOTATORS)}"
            )
        highest, allowed = (0, "0") if self.kind in ("none", HUMAN) else (1, "0..1")
        if not 0 <= self.rate <= highest:
            raise UsageError(
                f"the rate of label noise '{self.kind}' is {self.rate:g}; allowed: {allowed}."
            )

    @classmethod
    def parse(cls, text: str) -> "Noise":
        """The noise that a text such as ``uniform:0.4`` names."""
        kind, _, rate = text.partition(":")
        if text == "none":
            return cls("none", 0.0)
        if kind == HUMAN:
            return cls(HUMAN, 0.0, rate)
        if kind not in KINDS:
            raise UsageError(_unknown(kind))
        try:
            value = float(rate)
        except ValueError as error:
            raise UsageError(
                f"label noise '{text}' has no rate; write 'none', or a kind and a rate in "
                "0..1, such as 'uniform:0.4'."
            ) from error
        return cls(kind, value)


def require_noise(text: str, data: str) -> None:
    """Refuse a noise that cannot be, or cannot be that of a data set, before that is read."""
    noise = Noise.parse(text)
    name, why = _ONLY.get(noise.kind, (data, ""))
    if is_named(data) and data != name:
        raise UsageError(
            f"label noise '{text}' {why}, but the data are {data}: give {name}, or another "
            "noise, such as 'flip2:0.4'."
        )


def _unknown(kind: str) -> str:
    return f"unknown label noise '{kind}'. {nearest(kind, (*KINDS, HUMAN))}"


def transition_matrix(
    kind: str, rate: float, classes: int, *, seed: int = 1, groups: Sequence[int] = ()
) -> Float64[Tensor, "C C"]:
    """The probability of every label given the true class: row = true class.

    With p the rate and C classes::

        none     I
        uniform  p/C + (1 - p) I           the true class is among those drawn, so that the
                                           share of wrong labels is p (C - 1)/C
        flip     1 - p on the diagonal, p on one other class drawn for each row
        flip2    1 - p on the diagonal, p/2 on two other classes drawn for each row
        hierarchical  1 - p on the diagonal, p in equal parts on the others of its group

    Source: Shu et al., 2019, "Meta-Weight-Net"; flip2 and hierarchical as in its official code,
    with the seed 1.
    """
    noise = Noise(kind, rate)
    needed = _TARGETS.get(noise.kind, 0)
    if classes < needed + 1:
        raise UsageError(
            f"label noise '{kind}' needs at least {needed + 1} classes, but there are "
            f"{classes}; use 'uniform', or a data set with more classes."
        )
    identity = np.eye(classes)
    if noise.kind == "none":
        return torch.from_numpy(identity)
    if noise.kind == "uniform":
        return torch.from_numpy(rate / classes + (1 - rate) * identity)
    matrix = (1 - rate) * identity
    if noise.kind == "hierarchical":
        return torch.from_numpy(matrix + rate * _siblings(groups, classes))
    # The old generator, since the published matrices come from it.
    random = np.random.RandomState(seed)
    rows = np.arange(classes)
    for row in rows:
        # One class is drawn with "replacement": numpy's other path spends other numbers.
        others = random.choice(rows[rows != row], needed, replace=needed == 1)
        matrix[row, others] = rate / needed
    return torch.from_numpy(matrix)


def _siblings(groups: Sequence[int], classes: int) -> np.ndarray:
    # [C, C]: rows sum to one over the other classes of the same group
    if len(groups) != classes:
        raise UsageError(
            f"label noise 'hierarchical' needs the superclass of each of the {classes} "
            f"classes, but {len(groups)} are given: see SUPERCLASSES, or use 'uniform'."
        )
    places = np.asarray(groups)
    same = (places[:, None] == places) & ~np.eye(classes, dtype=bool)
    if not same.any(1).all():
        raise UsageError(
            "label noise 'hierarchical' moves a label within its superclass, but class "
            f"{int(same.any(1).argmin())} is alone in its own: use 'uniform'."
        )
    return same / same.sum(1, keepdims=True)


def noise_matrix(noise: Noise, classes: tuple[str, ...]) -> Float64[Tensor, "C C"]:
    """The transition matrix of a noise for classes of these names."""
    groups = superclasses_of(classes) if noise.kind == "hierarchical" else ()
    return transition_matrix(noise.kind, noise.rate, len(classes), groups=groups)


def corrupt(
    labels: Int64[Tensor, "N"], matrix: Float64[Tensor, "C C"], *, seed: int
) -> Int64[Tensor, "N"]:
    """One label for every example, drawn from ``Categorical(matrix[label])``."""
    total = matrix.cumsum(1)
    total = total / total[:, -1:]
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(len(labels), 1, generator=generator, dtype=torch.float64)
    return (draws >= total[labels]).sum(1)

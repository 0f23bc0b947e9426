"""The labels that people gave to CIFAR-10's training images: CIFAR-10N."""

import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labels import read_labels
from tutelage_cli.data.local import FOLDER, local_folder
from tutelage_cli.data.noise import ANNOTATORS, HUMAN, Noise

TRUE = "clean_label"
IMAGES = 50_000
"""that people labelled"""


def human_labels(train: ImageSet, annotator: str) -> Int64[Tensor, "N"]:
    """What people said of every training image of CIFAR-10.

    Source: Wei et al. 2022, "Learning with Noisy Labels Revisited: A Study Using Real-World
    Human Annotations".
    """
    noise = Noise(HUMAN, 0.0, annotator)
    copy = local_folder("cifar10n")
    if copy is None and len(train) == IMAGES:
        raise UsageError(
            f"cifar10n is not here: set {FOLDER} to a folder that holds a copy in its "
            "subfolder cifar10n, or give a file of labels by --labels-from."
        )
    others = UsageError(
        f"'human:{annotator}' holds labels of CIFAR-10's training images, but {train.name} "
        "holds others; give a file of labels by --labels-from."
    )
    if copy is None:
        raise others
    try:
        known = read_labels(copy, TRUE, len(train), train.classes)
    except UsageError as error:  # not as many, or not these classes
        raise others from error
    if not torch.equal(known, train.labels):
        raise others
    return read_labels(copy, ANNOTATORS[noise.annotator], len(train), train.classes)

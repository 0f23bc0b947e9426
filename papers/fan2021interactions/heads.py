"""Students of features of a frozen pretrained network: perceptrons with internal states."""

from collections import OrderedDict
from functools import partial

from torch import nn

WIDTH = 128
"""units of each hidden layer"""


def staged_mlp(hidden: int, features: int, classes: int) -> nn.Sequential:
    """A perceptron with hidden layers ``stage1`` to ``stage3``, of equal depth, and ``last``.

    The stages are the internal states I3 to I1 of Fan et al. 2021, and the last hidden layer
    is I0.
    """
    depth = (hidden - 1) // 3
    widths = [features, *[WIDTH] * hidden]
    layers = [nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU()) for width in widths[:hidden]]
    stages = {
        f"stage{k + 1}": nn.Sequential(*layers[k * depth : (k + 1) * depth]) for k in range(3)
    }
    parts = {**stages, "last": layers[-1], "classifier": nn.Linear(WIDTH, classes)}
    return nn.Sequential(OrderedDict(parts))


STAGED_MLPS = {"head-4": partial(staged_mlp, 4), "head-7": partial(staged_mlp, 7)}
"""by name, with the number of hidden layers; other students than ``tutelage.models.heads``"""

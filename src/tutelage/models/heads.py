"""Students of feature vectors: a multilayer perceptron and a linear classifier."""

from collections.abc import Callable

from torch import nn

from tutelage.errors import UsageError, nearest

WIDEST, NARROWEST = 512, 32
"""hidden units of ``mlp``: twice the features, between these"""
MLP, LINEAR = "mlp", "linear"


def mlp(features: int, classes: int, *, width: int | None = None) -> nn.Sequential:
    """Linear - BatchNorm - ReLU - Linear.

    Args:
        features: Columns of the input, D.
        classes: Columns of the output.
        width: Hidden units; 2 D within 32 to 512 if None, which is 512 for D of 256 and above.

    Returns:
        From [B, D] to logits [B, classes], drawn from torch's global generator.
    """
    hidden = min(WIDEST, max(NARROWEST, 2 * features)) if width is None else width
    return nn.Sequential(
        nn.Linear(features, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def linear(features: int, classes: int) -> nn.Sequential:
    """Multinomial logistic regression.

    Args:
        features: Columns of the input, D.
        classes: Columns of the output.

    Returns:
        From [B, D] to logits [B, classes]; module ``0`` is the input, for taps.
    """
    return nn.Sequential(nn.Identity(), nn.Linear(features, classes))


HEADS: dict[str, Callable[[int, int], nn.Module]] = {MLP: mlp, LINEAR: linear}
"""students of feature vectors by name, from the numbers of features and classes"""


def head(name: str, features: int, classes: int) -> nn.Module:
    """The student of feature vectors of a name in ``HEADS``, drawn from torch's generator."""
    if name not in HEADS:
        raise UsageError(f"Unknown student '{name}' of feature vectors. {nearest(name, HEADS)}")
    return HEADS[name](features, classes)

"""Losses of every example, and their weighted mean.

An objective gives one loss for each row; the reduction makes one number of losses, weights and
rows without a label. It knows nothing of students or teachers. Start with ``objectives.py``.
"""

from tutelage.losses.objectives import (
    Auxiliary,
    Objective,
    TokenCrossEntropy,
    binary_cross_entropy,
    cross_entropy,
    expected_error,
    squared_error,
)
from tutelage.losses.probability import Focal, GeneralisedCrossEntropy
from tutelage.losses.reduction import weighted_loss

__all__ = [
    "Auxiliary",
    "Focal",
    "GeneralisedCrossEntropy",
    "Objective",
    "TokenCrossEntropy",
    "binary_cross_entropy",
    "cross_entropy",
    "expected_error",
    "squared_error",
    "weighted_loss",
]

"""Logging of a tutor's steps to TensorBoard, Weights & Biases or ``logging``."""

from tutelage.logs.numbers import weight_numbers
from tutelage.logs.places import (
    Log,
    TensorBoard,
    to_logger,
    to_wandb,
)
from tutelage.logs.reporter import Reporter

__all__ = [
    "Log",
    "Reporter",
    "TensorBoard",
    "to_logger",
    "to_wandb",
    "weight_numbers",
]

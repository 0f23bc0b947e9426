"""Logging of a tutor's steps to TensorBoard, MLflow, Weights & Biases or ``logging``."""

from tutelage.logs.loggers import Log, MLflow, TensorBoard, to_logger, to_wandb
from tutelage.logs.reporter import Reporter, weight_numbers

__all__ = [
    "Log",
    "MLflow",
    "Reporter",
    "TensorBoard",
    "to_logger",
    "to_wandb",
    "weight_numbers",
]

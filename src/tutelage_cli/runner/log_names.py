"""The names of logs on the command line; imports nothing heavy."""

from typing import Literal

LogName = Literal["tensorboard", "mlflow", "wandb"]

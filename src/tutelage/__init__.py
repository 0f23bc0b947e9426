"""Train neural networks on data with wrong labels, by cross-fitting or learned weights.

A teacher learns, while a student trains, how much each example counts; a stored teacher is a
commentary. All that is public is a name of this package or of a package that it names, such as
``tutelage.signals.Reversible``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutelage import (
        augment,
        commentaries,
        crossfit,
        data,
        distributed,
        integrations,
        logs,
        losses,
        models,
        per_example,
        signals,
        sklearn,
        teachers,
        training,
    )
    from tutelage.bilevel import BilevelProblem
    from tutelage.commentaries import load_commentary, save_commentary
    from tutelage.fitting import FitResult, fit
    from tutelage.per_example import Recorder, gradient_dots
    from tutelage.signals import Lookahead, Reversible, Unrolled, products
    from tutelage.teacher import Teacher
    from tutelage.training import loops
    from tutelage.training.tutor import Tutor
    from tutelage.types import Batch, Estimate, Observation, Params, PreparedBatch, Window

__all__ = [
    "Batch",
    "BilevelProblem",
    "Estimate",
    "FitResult",
    "Lookahead",
    "Observation",
    "Params",
    "PreparedBatch",
    "Recorder",
    "Reversible",
    "Teacher",
    "Tutor",
    "Unrolled",
    "Window",
    "augment",
    "commentaries",
    "crossfit",
    "data",
    "distributed",
    "fit",
    "gradient_dots",
    "integrations",
    "load_commentary",
    "logs",
    "loops",
    "losses",
    "models",
    "per_example",
    "products",
    "save_commentary",
    "signals",
    "sklearn",
    "teachers",
    "training",
]

_HOMES = {
    "Batch": "types",
    "BilevelProblem": "bilevel",
    "Estimate": "types",
    "FitResult": "fitting",
    "PreparedBatch": "types",
    "Lookahead": "signals",
    "Observation": "types",
    "Params": "types",
    "Recorder": "per_example",
    "Reversible": "signals",
    "Teacher": "teacher",
    "Tutor": "training.tutor",
    "Unrolled": "signals",
    "Window": "types",
    "fit": "fitting",
    "gradient_dots": "per_example",
    "load_commentary": "commentaries",
    "loops": "training",
    "products": "signals",
    "save_commentary": "commentaries",
}


def __getattr__(name: str) -> object:  # so that `tutelage --help` need not wait for torch
    if name in _HOMES:
        return getattr(import_module(f"tutelage.{_HOMES[name]}"), name)
    if name in __all__:
        return import_module(f"tutelage.{name}")
    raise AttributeError(f"module 'tutelage' has no attribute '{name}'")

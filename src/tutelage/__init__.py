"""Teach neural networks how to be trained.

A teacher learns, while a student trains, how much each example counts; the result is a
commentary, a small artifact kept beside a data set and used again.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutelage import logs, models, signals, teachers
    from tutelage.commentaries import load_commentary, save_commentary
    from tutelage.per_example import Recorder
    from tutelage.per_example import gradient_dots as gradient_dots
    from tutelage.signals import Lookahead, Reversible, Unrolled
    from tutelage.training.tutor import Tutor
    from tutelage.types import Batch, Lesson, Observation

__all__ = [
    "Batch",
    "Lesson",
    "Lookahead",
    "Observation",
    "Recorder",
    "Reversible",
    "Tutor",
    "Unrolled",
    "gradient_dots",
    "load_commentary",
    "logs",
    "models",
    "save_commentary",
    "signals",
    "teachers",
]

_HOMES = {
    "Batch": "types",
    "Lesson": "types",
    "Lookahead": "signals",
    "Observation": "types",
    "Recorder": "per_example",
    "Reversible": "signals",
    "Tutor": "training.tutor",
    "Unrolled": "signals",
    "gradient_dots": "per_example",
    "load_commentary": "commentaries",
    "save_commentary": "commentaries",
}


def __getattr__(name: str) -> object:  # so that `tutelage --help` need not wait for torch
    if name in _HOMES:
        return getattr(import_module(f"tutelage.{_HOMES[name]}"), name)
    if name in __all__:
        return import_module(f"tutelage.{name}")
    raise AttributeError(f"module 'tutelage' has no attribute '{name}'")

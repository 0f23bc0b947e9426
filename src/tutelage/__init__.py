"""Teach neural networks how to be trained.

A teacher learns, while a student trains, how much each example counts; the result is a
commentary, a small artifact kept beside a data set and used again.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutelage import crossfit, logs, models, signals, teachers
    from tutelage.alignments import Recorder, alignment
    from tutelage.commentaries import load_commentary, save_commentary
    from tutelage.records import Batch, Lesson, Observation
    from tutelage.signals import Lookahead, Reversible, Unrolled
    from tutelage.tutor import Tutor

__all__ = [
    "Batch",
    "Lesson",
    "Lookahead",
    "Observation",
    "Recorder",
    "Reversible",
    "Tutor",
    "Unrolled",
    "alignment",
    "crossfit",
    "load_commentary",
    "logs",
    "models",
    "save_commentary",
    "signals",
    "teachers",
]

_HOMES = {
    "Batch": "records",
    "Lesson": "records",
    "Lookahead": "signals",
    "Observation": "records",
    "Recorder": "alignments",
    "Reversible": "signals",
    "Tutor": "tutor",
    "Unrolled": "signals",
    "alignment": "alignments",
    "load_commentary": "commentaries",
    "save_commentary": "commentaries",
}


def __getattr__(name: str) -> object:  # so that `tutelage --help` need not wait for torch
    if name in _HOMES:
        return getattr(import_module(f"tutelage.{_HOMES[name]}"), name)
    if name in __all__:
        return import_module(f"tutelage.{name}")
    raise AttributeError(f"module 'tutelage' has no attribute '{name}'")

"""Teaching in other training loops, one module for each framework.

``Teaching`` holds the teacher, its signal and the held-out data. ``TeachingModule`` is for
Lightning, ``taught`` for Accelerate and ``TeachingTrainer`` for transformers; each needs the
extra of that name, and is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from tutelage.integrations.teaching import Teaching, TeachingState

if TYPE_CHECKING:
    from tutelage.integrations.accelerate import taught
    from tutelage.integrations.lightning import TeachingModule
    from tutelage.integrations.transformers import TeachingTrainer

__all__ = ["Teaching", "TeachingModule", "TeachingState", "TeachingTrainer", "taught"]

_FRAMEWORKS = {
    "TeachingModule": "lightning",
    "TeachingTrainer": "transformers",
    "taught": "accelerate",
}


def __getattr__(name: str) -> object:
    if name in _FRAMEWORKS:
        module = import_module(f"tutelage.integrations.{_FRAMEWORKS[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'tutelage.integrations' has no attribute '{name}'")

"""``fit``: a module of your own trained under the default teacher, in one call."""

from tutelage.fitting.fit_loop import fit
from tutelage.fitting.result import FitResult

__all__ = ["FitResult", "fit"]

"""Signals: estimators of the teacher's gradient."""

from tutelage.signals import products
from tutelage.signals.implicit import Implicit
from tutelage.signals.lookahead import Lookahead
from tutelage.signals.replayed import Replayed
from tutelage.signals.reversible import Reversible
from tutelage.signals.rewards import GradientAlignment, NextStepLoss
from tutelage.signals.score import Score
from tutelage.signals.signal import InitialGradientSignal, OneStep, Signal, TrajectorySignal
from tutelage.signals.solvers import ConjugateGradient, Neumann
from tutelage.signals.unrolled import Unrolled

__all__ = [
    "ConjugateGradient",
    "GradientAlignment",
    "Implicit",
    "InitialGradientSignal",
    "Lookahead",
    "Neumann",
    "NextStepLoss",
    "OneStep",
    "Replayed",
    "Reversible",
    "Score",
    "Signal",
    "TrajectorySignal",
    "Unrolled",
    "products",
]

FromStart, WholeRun = InitialGradientSignal, TrajectorySignal  # former names

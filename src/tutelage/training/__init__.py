"""The training loop: student steps, and teacher steps at intervals.

Start with ``Tutor.step`` in ``tutor.py``, then ``step.py`` and ``forward.py``.
"""

from tutelage.training import loops, meta_weight_net
from tutelage.training.accuracy_reward import AccuracyGoal, RewardedEpisode, rewarded
from tutelage.training.forward import StepResult
from tutelage.training.step_strategy import AmpStep, PlainStep, StepStrategy
from tutelage.training.tutor import Tutor

__all__ = [
    "AccuracyGoal",
    "AmpStep",
    "PlainStep",
    "RewardedEpisode",
    "StepResult",
    "StepStrategy",
    "Tutor",
    "loops",
    "meta_weight_net",
    "rewarded",
]

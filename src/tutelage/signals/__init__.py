"""Learning signals: how the teacher learns whether its teaching helped."""

from tutelage.signals.lookahead import Lookahead
from tutelage.signals.protocol import Signal
from tutelage.signals.reversible import Reversible
from tutelage.signals.unrolled import Unrolled

__all__ = ["Lookahead", "Reversible", "Signal", "Unrolled"]

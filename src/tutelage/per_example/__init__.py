"""Per-example products ``<grad l_i, v>`` without per-example gradients."""

from tutelage.per_example.finite_difference import central_dots, forward_difference_dots
from tutelage.per_example.forward import Losses, forward_dots
from tutelage.per_example.gradient_dots import gradient_dots
from tutelage.per_example.recorder import Recorder
from tutelage.per_example.recording import Recording

__all__ = [
    "Losses",
    "Recorder",
    "Recording",
    "central_dots",
    "forward_difference_dots",
    "forward_dots",
    "gradient_dots",
]

"""How every example's gradient lies to a direction, without per-example gradients."""

from tutelage.alignments.alignment import alignment, dots_or_forward
from tutelage.alignments.coupling import couples_rows
from tutelage.alignments.difference import central_dots, forward_difference_dots
from tutelage.alignments.forward import Losses, forward_dots, load_forward_mode
from tutelage.alignments.recorder import Recorder
from tutelage.alignments.recording import Recording

__all__ = [
    "Losses",
    "Recorder",
    "Recording",
    "alignment",
    "central_dots",
    "couples_rows",
    "dots_or_forward",
    "forward_difference_dots",
    "forward_dots",
    "load_forward_mode",
]

"""The check that a window's recomputed steps end where training ended."""

import torch
from torch import Tensor

from tutelage.errors import UnsupportedStudentError
from tutelage.precision import FULL, wide
from tutelage.types import StudentState, Window

FARTHEST = 0.01
"""distance of the two ends relative to the window's length, above which they differ"""
FARTHEST_IN_HALF = 0.5
"""the same where half precision rounds the real steps otherwise than the recomputed ones"""


def require_same_end(window: Window, end: StudentState) -> None:
    """Raise if the recomputed steps end elsewhere than the real ones."""
    kinds = {window.end.params[k].dtype for step in window.steps for k in step.settings}
    half = any(torch.finfo(kind).bits < 32 for kind in kinds)
    half |= any(step.batch.autocast != FULL for step in window.steps)
    distance = distance_of_ends(window, end)
    if distance > (FARTHEST_IN_HALF if half else FARTHEST):
        raise UnsupportedStudentError(
            f"{len(window.steps)} steps of the student, recomputed, end elsewhere than its "
            f"training (off by {distance:.2g} of the way): a hook, clipping or constraint of "
            "your own changed its gradient or parameters in a step, or its parameters, "
            "buffers, training mode or optimiser state, or the teacher, were changed between "
            "two of them. Clip by step_strategy=PlainStep(max_norm), and make other changes "
            "between two windows of the signal; Lookahead() has windows of one step. If "
            "nothing was changed, rounding grew: lower the learning rate or take fewer steps."
        )


def distance_of_ends(window: Window, end: StudentState) -> float:
    """The distance between real and recomputed end, relative to that from start to end.

    Parameters count by Adam's mean squared gradient, where there is one: an entry whose
    gradient is all rounding moves as far as others there, but does not matter to the loss.

    Returns:
        0 where the ends agree within rounding; NaN where the window is not finite.
    """
    assert window.start is not None
    moving = {name for step in window.steps for name in step.settings}
    scales, totals = end.slots.get("exp_avg_sq", {}), []
    for name, again in end.params.items():
        start, real = window.start.params[name], window.end.params[name]
        scale = scales[name].double().sqrt() if name in scales else 1.0
        ulp = torch.finfo(real.dtype).eps * len(window.steps) if name in moving else 0.0
        parts = wide(real) - again, again - wide(start), ulp * wide(real)
        totals.append(torch.stack([_squares(part, scale) for part in parts]))
    away, way, rounding = torch.stack(totals).sum(0).sqrt().tolist()
    return (away - rounding) / way if away > rounding and way else float(away > rounding)


def _squares(difference: Tensor, scale: Tensor | float) -> Tensor:
    return (difference.double() * scale).square().sum()

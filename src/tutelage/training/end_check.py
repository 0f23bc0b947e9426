"""The check that a window's recomputed steps end where training ended."""

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.precision import FULL, upcast
from tutelage.types import Params, StudentState, Window

FARTHEST = {64: 1e-5, 32: 1e-3, 16: 0.5}
"""distance of the two ends relative to the window's length, above which they differ, by bits

Half precision rounds the real steps otherwise than the recomputed ones.
"""
FARTHEST_IN_TF32 = 0.01
"""the same for float32 on accelerators, where products may be rounded to TensorFloat-32"""


def require_same_end(window: Window, end: StudentState) -> None:
    """Raise if the recomputed steps end elsewhere than the real ones."""
    distance, number = distance_of_ends(window, end), len(window.steps)
    if distance > _farthest(window):
        when = "between two of them"
        allowed = "between two windows of the signal; Lookahead() has windows of one step"
        fewer = " or take fewer steps"
        if number == 1:  # Lookahead or a reward, perhaps of the next step's loss
            when = "before the teacher step that follows it"
            allowed = "where tutor.awaits_next_step is False"
            fewer = ""
        raise UnsupportedStudentError(
            f"{f'{number} steps' if number > 1 else 'A step'} of the student, recomputed, "
            f"end{'s' * (number == 1)} elsewhere than its training (off by {distance:.2g} of "
            "the way): a hook, clipping or constraint of your own changed its gradient or "
            "parameters in a step, a step used random numbers from outside torch's generators, "
            "or the student's parameters, buffers, plain attributes, training mode or "
            "optimiser state, the objective's own state, or the teacher, were changed "
            f"{when}. Clip by step_strategy=PlainStep(max_norm), and make other changes "
            f"{allowed}. If nothing was changed, rounding grew: lower the learning rate{fewer}."
        )


def end_of_observed_step(
    problem: BilevelProblem, window: Window, teacher_params: Params
) -> StudentState | None:
    """The end of a window of one observed step: recomputed, or by its recorded gradient."""
    if window.start is None:
        return None
    step = window.steps[-1]
    if window.costly_checks:
        return problem.step(window.start, teacher_params, step)
    recorded = None if window.observed is None else window.observed.recorded
    # rows of other processes may reach parameters that rows of this one do not
    if recorded is None or problem.processes.size > 1:
        return None
    if step.settings.keys() - recorded.gradient.keys():
        return None
    grads = {k: recorded.gradient[k] for k in step.settings}
    return problem.rule.update(window.start, grads, step.settings)


def _farthest(window: Window) -> float:
    # as the least precise of the parameters, and of the autocast types
    params = window.end.params.values()
    numbers = [p.dtype for p in params if p.is_floating_point() or p.is_complex()]
    bits = min(torch.finfo(dtype).bits for dtype in numbers)
    if bits < 32 or any(step.batch.autocast != FULL for step in window.steps):
        return FARTHEST[16]
    if bits == 32 and any(p.device.type != "cpu" for p in params):
        return FARTHEST_IN_TF32
    return FARTHEST[bits]


def distance_of_ends(window: Window, end: StudentState) -> float:
    """The distance between real and recomputed end, relative to that from start to end.

    Parameters count by Adam's mean squared gradient, where there is one: an entry whose
    gradient is all rounding moves as far as others there, but does not matter to the loss. It
    is 0 where the ends agree within rounding, and NaN where the window is not finite.
    """
    assert window.start is not None
    moving = {name for step in window.steps for name in step.settings}
    scales, totals = end.slots.get("exp_avg_sq", {}), []
    for name, again in end.params.items():
        start, real = window.start.params[name], window.end.params[name]
        scale = scales[name].double().sqrt() if name in scales else 1.0
        ulp = torch.finfo(real.dtype).eps * len(window.steps) if name in moving else 0.0
        parts = upcast(real) - again, again - upcast(start), ulp * upcast(real)
        totals.append(torch.stack([(d.double() * scale).square().sum() for d in parts]))
    off, moved, rounding = torch.stack(totals).sum(0).sqrt().tolist()
    return (off - rounding) / moved if off > rounding and moved else float(off > rounding)

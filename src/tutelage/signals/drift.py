"""Rounding error of steps reversed in floating point."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.errors import InexactWindowError, UnsupportedStudentError
from tutelage.functional.trees import cloned, is_finite
from tutelage.precision import FULL
from tutelage.signals.histories import FloatHistory
from tutelage.types import Estimate, Params, Step, StudentState

WORST_DRIFT = 1e-3
"""amplification of rounding, by the momentum alone, above which a window is refused at once"""
WORST_ERROR = 5e-5
"""estimated error of an undone window above which it is refused; that of the hypergradient was
up to 15 times as large in random runs"""
FARTHEST = 0.01
"""distance of the undone momentum buffers relative to their size, above which they differ"""
FARTHEST_IN_HALF = 0.5
"""the same where the first step ran under autocast, whose rounding jumps"""
CURVED = 100
"""times the curvature at which steps converge, up to which the first steps of a student go"""
FAR = 1e4
"""times the rounding that momentum amplifies, above which curvature is not the likely cause"""
CHANGED = (
    "a hook, clipping or constraint of your own changed the student's gradient or parameters "
    "in a step, or its parameters, training mode, code path or optimiser state, or the "
    "objective or the teacher, were changed between two of them. Make such changes between two "
    "windows of the signal, or use Lookahead(), whose windows have one step."
)
"""causes other than rounding of steps that do not come back"""
ENTRIES = 4096
"""of each parameter, that are compared"""


def entries_of(params: Params) -> Params:
    """A fixed sample of each parameter's entries."""
    return {name: p.detach().reshape(-1)[_places(p)].clone() for name, p in params.items()}


def sample_of(state: StudentState) -> StudentState:
    """The entries of parameters and momentum buffers, and all buffers of the student."""
    velocity = state.slots.get("momentum_buffer", {})
    slots = {"momentum_buffer": entries_of(velocity)}
    return StudentState(entries_of(state.params), cloned(state.buffers), slots)


def _places(p: Tensor) -> Tensor | slice:
    if p.numel() <= ENTRIES:
        return slice(None)
    generator = torch.Generator().manual_seed(0)
    return torch.randint(p.numel(), (ENTRIES,), generator=generator).to(p.device)


class UndoneVelocity(NamedTuple):
    """Entries of the momentum buffers of what a window's first step moved."""

    before: Params
    """reconstructed momentum before the step"""
    after: Params
    """momentum after the step"""

    @classmethod
    def of(
        cls, params: Params, velocity: Params, step: Step, gradient: Params
    ) -> "UndoneVelocity":
        """Undo the step's change of the entries; ``params`` are those before it."""
        p, v, g = (
            entries_of({k: x[k] for k in step.settings}) for x in (params, velocity, gradient)
        )
        history = FloatHistory(p, v)
        history.undo_velocity(step, g)
        return cls(history.velocity, v)


class UndoneWindow(NamedTuple):
    """A reversed window."""

    steps: Sequence[Step]
    start: Params | None
    """entries of the parameters before its first step, as they were; None where not known"""
    undone: Params
    """the parameters there, as they came back"""
    end: Params
    """the parameters after its last step"""
    adjoints: Sequence[Tensor]
    """norms of the held-out loss's gradient in the parameters after each step, from the end"""
    adjoint: Params
    """that gradient after the first step"""
    cancelled: Tensor
    """scalar: the steps' parts of the hypergradient, by their norms, relative to its own"""
    velocity: UndoneVelocity | None = None
    """None where the first step's gradient is not recomputed"""

    def error(self) -> float:
        """Estimate of the relative error that reversing adds to a hypergradient.

        How far the parameters have come back beside what they were or moved by, times the
        growth of the adjoint, since what grows on its way back is as sensitive to where it
        goes, and times what the steps' parts of the hypergradient lose by cancelling.
        """
        lengths = torch.stack(list(self.adjoints)).tolist()
        growth = max(lengths) / lengths[0] if lengths[0] else 1.0
        off = self.reconstruction_error()
        cancelled = max(1.0, float(self.cancelled))  # NaN where all of it is zero
        error = max(off, precision_of(self.end)) * max(growth, 1.0) * cancelled
        return error if all(map(math.isfinite, lengths)) else math.nan

    def reconstruction_error(self) -> float:
        """How far the parameters have come back beside what they were or moved by."""
        return self.amplified() if self.start is None else self._off(self.start)

    def _off(self, start: Params) -> float:
        restored, reached = entries_of(self.undone), entries_of(self.end)
        rows = []
        for name in start.keys() & self.undone.keys():
            was = start[name]
            parts = restored[name].double() - was, was.double(), reached[name].double() - was
            counted = self.undone[name].numel() / max(was.numel(), 1)
            off, size, moved = (counted**0.5 * torch.linalg.vector_norm(x) for x in parts)
            sensitive = torch.linalg.vector_norm(self.adjoint[name].double())
            rows.append(torch.stack([off, torch.maximum(size, moved), sensitive]))
        if not rows:
            return self.amplified()
        off, size, sensitive = torch.stack(rows, 1).cpu()
        everywhere = _share(off.norm(), size.norm())
        return max(everywhere, _share((sensitive * off).sum(), (sensitive * size).sum()))

    def amplified(self) -> float:
        """Rounding amplified by the momentum alone."""
        return amplification(self.steps) * precision_of(self.end)


def _share(part: Tensor, whole: Tensor) -> float:
    part, whole = part.detach(), whole.detach()  # float() warns of others
    return float(part / whole) if float(whole) else 0.0


def amplification(steps: Sequence[Step]) -> float:
    """The growth of rounding errors by the momentum alone."""
    return math.prod(1 / min(s["momentum"] for s in step.settings.values()) for step in steps)


def precision_of(params: Params) -> float:
    """The largest machine epsilon of the dtypes."""
    return max(torch.finfo(p.dtype).eps for p in params.values())


def require_little_drift(steps: Sequence[Step], params: Params) -> None:
    """Raise if a window is too long to reverse accurately."""
    growth, precision = amplification(steps), precision_of(params)
    if growth * precision > WORST_DRIFT:
        each = math.log(growth) / len(steps)
        most = int(math.log(WORST_DRIFT / precision) / each) if precision < WORST_DRIFT else 0
        fewer = f"Use a window of fewer steps, {most} at most, train" if most else "Train"
        raise ValueError(
            f"Reversing {len(steps)} steps would amplify rounding to about "
            f"{growth * precision:.0e}, above {WORST_DRIFT:.0e}. {fewer} in float64, or use "
            "Replayed, or Reversible(exact=True) for a whole run."
        )


def require_same_start(undone: UndoneWindow, start: Params) -> None:
    """Raise if a run that was reversed in fixed point does not come back bit for bit."""
    back = entries_of(undone.undone)
    if not all(torch.equal(back[name], entries) for name, entries in start.items()):
        raise UnsupportedStudentError(
            f"The {len(undone.steps)} steps of the student, undone in fixed point, do not come "
            "back to its start: a step that is recomputed has another gradient than it had, as "
            "where the forward pass reads buffers that it renews, or on a GPU without "
            "torch.use_deterministic_algorithms(True). Use Replayed, or Unrolled."
        )


def require_same_velocity(undone: UndoneWindow, known: Params) -> None:
    """Raise if undoing the first step gives other momentum buffers than there were before it.

    The parameters before a step do not depend on its gradient, the momentum buffers do. What
    rounding may do to that gradient is left out: the parameters' own error times ``CURVED``
    times 4 / lr, the largest curvature at which heavy-ball steps converge. The first steps of
    deep networks with batch normalisation have up to twenty times that curvature.
    """
    if undone.velocity is None or undone.start is None:
        return
    step, rows, restored = undone.steps[0], [], entries_of(undone.undone)
    lost = amplification(undone.steps) * precision_of(undone.end)
    for name, s in step.settings.items():
        back, after = (x[name].double() for x in undone.velocity)
        was = known[name].double() if name in known else torch.zeros_like(back)
        start = undone.start[name].double()
        counted = (undone.undone[name].numel() / max(back.numel(), 1)) ** 0.5
        lr = max(t.settings[name]["lr"] for t in undone.steps if name in t.settings)
        parts = (back - was, was, after, restored[name].double() - start, start)
        off, *sizes, moved, size = (counted * torch.linalg.vector_norm(x) for x in parts)
        rounding = CURVED * 4 * (moved / s["momentum"] + lost * size) / lr if lr else off
        sensitive = torch.linalg.vector_norm(undone.adjoint[name].double())
        rows.append(torch.stack([off, torch.maximum(*sizes), rounding, sensitive]))
    off, size, rounding, sensitive = torch.stack(rows, 1).cpu()
    distance = max(
        _share(off.norm() - rounding.norm(), size.norm()),
        _share((sensitive * (off - rounding)).sum(), (sensitive * size).sum()),
    )
    if distance > (FARTHEST if step.batch.autocast == FULL else FARTHEST_IN_HALF):
        raise UnsupportedStudentError(
            f"The first of {len(undone.steps)} steps of the student, recomputed, has another "
            f"gradient than in its training (the momentum before it is off by {distance:.2g} "
            f"of its size): {CHANGED}"
        )


def require_reached(gradient: Params, step: Step) -> None:
    """Raise if a recomputed step does not reach a parameter that the real one moved."""
    if missing := [k for k in step.settings if k not in gradient]:
        raise UnsupportedStudentError(
            f"A step of the student moved {', '.join(missing)}, which the same step, "
            f"recomputed, does not reach: {CHANGED}"
        )


def require_undone(estimate: Estimate, undone: UndoneWindow, end: StudentState) -> Estimate:
    """Raise if the estimated error of a reversed window is too large."""
    nothing = {k: torch.full_like(g, torch.nan) for k, g in estimate.grad.items()}
    error = undone.error()
    if math.isnan(error) or not is_finite(estimate.grad):
        return estimate._replace(grad=nothing)
    estimate = estimate._replace(facts={**estimate.facts, "undone_error": error})
    if error <= WORST_ERROR:
        return estimate
    steps, precision = len(undone.steps), precision_of(undone.end)
    most, aim = 0, WORST_ERROR / 4  # rounding differs by so much from one length to another
    if precision < aim:
        most = max(int(steps * math.log(aim / precision, error / precision)), 1)
    fewer = f"Use a window of about {most} steps, lower" if most else "Lower"
    far = undone.reconstruction_error() > FAR * undone.amplified()
    cause = f"{CHANGED} If nothing was changed, rounding" if far else "rounding"
    raise InexactWindowError(
        f"Reversing {steps} steps is off by about {error:.0e}, above {WORST_ERROR:.0e}: "
        f"{cause} grows by the loss's curvature. {fewer} the learning rate, train in float64, "
        "or use Replayed, or Reversible(exact=True) for a whole run.",
        estimate._replace(grad=nothing),
        end,
    )

"""``Recording``: one recorded forward and backward pass."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tutelage.errors import UnsupportedStudentError, UsageError, nearest
from tutelage.per_example.coupling import RowCheck
from tutelage.per_example.module_calls import Call
from tutelage.per_example.row_arithmetic import gradient_dot
from tutelage.types import Params
from tutelage.validation.shapes import require_tensors


@dataclass
class Recording:
    """A recorded forward and backward pass, from which products are read."""

    names: list[str]
    """parameters that count"""
    everything: list[str]
    """all of the student's"""
    rows: int
    """B"""
    check: RowCheck
    """whether rows depend on one another"""
    calls: list[Call] = field(default_factory=list)
    gradient: Params = field(default_factory=dict)
    """of the loss that was differentiated, by the student's parameter names"""
    unplaced: set[str] = field(default_factory=set)
    """modules in whose output no dimension counts rows, or several might"""
    called: bool = False
    """whether any module was called"""

    @property
    def uncovered(self) -> list[str]:
        """Parameters whose gradient came from outside recorded modules."""
        seen = {name for call in self.calls for name in call.unit.params.values()}
        return [name for name in self.gradient if name not in seen]

    def verify(self, losses: Tensor, *, row_by_row: bool = False) -> None:
        """Check that rows are independent of one another, as ``dots`` needs.

        Call it between forward and backward pass where the objective is not known to be row by
        row; where rows depend on one another ``dots`` raises UnsupportedStudentError then.

        Args:
            losses: Of the rows [B], attached to the student's graph.
            row_by_row: Whether each loss is known to depend on its own row alone.
        """
        self.check.verify(losses, row_by_row=row_by_row)

    def finish(self) -> None:
        """Drop calls without a gradient."""
        self.check.outputs.clear()
        self.called = bool(self.calls)
        self.calls = [call for call in self.calls if call.reached]

    def ones(self) -> Tensor:
        """Coefficients for the sum of the losses.

        Returns:
            [B].
        """
        first = next(iter(self.gradient.values()), torch.zeros(()))
        return torch.ones(self.rows, dtype=first.dtype, device=first.device)

    def dots(self, direction: Params, coefficients: Tensor) -> Tensor:
        """``<d l_i / d theta, g>`` for every row of the batch.

        Note: Raises UsageError where the direction does not fit the student, is no tensors or
            no gradient came, and ValueError where a coefficient is zero: nothing is known of
            that row.
        """
        require_tensors("A direction", **direction)
        require_tensors("Recording.dots", coefficients=coefficients)
        known = self._fitting(direction)
        coefficients = self._usable(coefficients)
        missing = [name for name in self.uncovered if name in known]
        if missing:
            raise UnsupportedStudentError(self._why_missing(missing))
        if self.check.reason:
            raise UnsupportedStudentError(
                f"Row by row nothing can be read off one pass: {self.check.reason}. "
                "Use method='forward'."
            )
        shares = [call.dots(known) for call in self.calls] if known else []
        if not shares:
            return torch.zeros_like(coefficients)
        zero = check_sums(self.calls, shares, self.gradient, known)
        scaled = torch.stack([share.to(coefficients.dtype) for share in shares]).sum(0)
        return scaled / coefficients + zero.to(coefficients.dtype)

    def _fitting(self, direction: Params) -> Params:
        if self.called and not self.gradient:
            raise UsageError(
                "No recorded output has a gradient. Run the backward pass inside of the "
                "block of Recorder.record."
            )
        for name in direction:
            if name not in self.everything:
                allowed = nearest(name, self.everything)
                raise UsageError(f"The student has no parameter '{name}'. {allowed}")
        known = {k: v.detach() for k, v in direction.items() if k in self.names}
        for name, g in self.gradient.items():
            if name in known and known[name].shape != g.shape:
                raise UsageError(
                    f"The direction has shape {list(known[name].shape)} for the parameter "
                    f"'{name}'; the parameter has {list(g.shape)}."
                )
        kinds = {k: g.dtype for k, g in self.gradient.items()}
        return {k: v.to(kinds.get(k, v.dtype)) for k, v in known.items()}

    def _usable(self, coefficients: Tensor) -> Tensor:
        if coefficients.shape != (self.rows,):
            raise ValueError(
                f"Coefficients have shape {list(coefficients.shape)}; one for each of the "
                f"{self.rows} recorded rows is needed: [{self.rows}]."
            )
        if bool((coefficients == 0).any()):
            raise ValueError(
                "Rows of weight zero leave nothing to read off: use method='forward'."
            )
        return coefficients.detach()

    def _why_missing(self, missing: list[str]) -> str:
        message = (
            f"The student uses {', '.join(missing)} outside of its modules' forward passes"
        )
        if self.unplaced:
            message += (
                f", or where no dimension counts the {self.rows} recorded rows for sure "
                f"(modules: {', '.join(sorted(self.unplaced))})"
            )
        return f"{message}. Use method='forward', or leave them out by layers=."


TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}
"""largest gap, relative to the sum of absolute shares; ``ROUNDED`` for shorter floats"""
ROUNDED = 5e-2
NOISE = 1e-2
"""part of that tolerance by which a layer may miss, relative to the shares of all layers"""


def check_sums(
    calls: Sequence[Call], shares: Sequence[Tensor], gradient: Params, direction: Params
) -> Tensor:
    """Compare the sum over rows with the gradient's product, layer by layer."""
    groups = merge_overlapping([
        set(call.unit.params.values()) & set(direction) for call in calls
    ])
    groups = [g for g in groups if g <= set(gradient)]
    if not groups:
        return torch.zeros((), device=shares[0].device)
    members = [[bool(g & set(c.unit.params.values())) for c in calls] for g in groups]
    inside = torch.tensor(members, dtype=torch.float64, device=shares[0].device)
    sums = torch.stack([share.double().sum() for share in shares])
    sizes = torch.stack([share.double().abs().sum() for share in shares])
    wholes = torch.stack([group_dot(group, gradient, direction) for group in groups])
    gaps = (inside @ sums - wholes).abs()
    bounds = tolerance(calls, gradient) * (inside @ sizes + NOISE * sizes.sum()) + 1e-30
    missed = gaps.isfinite() & (gaps > bounds)
    if bool(missed.any()):
        worst = int((gaps / bounds).where(missed, 0).argmax())
        raise UnsupportedStudentError(
            f"Row by row the dot products sum to {float((inside @ sums)[worst]):.6g}, but the "
            f"gradient gives {float(wholes[worst]):.6g}: the student uses "
            f"{', '.join(sorted(groups[worst]))} also outside of its modules' forward passes. "
            "Use method='forward'."
        )
    return (gaps - gaps).sum()


def group_dot(group: set[str], gradient: Params, direction: Params) -> Tensor:
    """Product of the gradient of some parameters with the direction."""
    return torch.stack([gradient_dot(gradient[k], direction[k]).double() for k in group]).sum()


def tolerance(calls: Sequence[Call], gradient: Params) -> float:
    """The largest relative gap, by the lowest precision that took part."""
    kinds = {g.dtype for g in gradient.values()}
    kinds |= {kind for call in calls for kind in (call.kind, call.store) if kind is not None}
    return max(TOLERANCE.get(kind, ROUNDED) for kind in kinds)


def merge_overlapping(sets: list[set[str]]) -> list[set[str]]:
    """Merge sets that share a name."""
    found: list[set[str]] = []
    for names in filter(None, sets):
        touching = [group for group in found if group & names]
        found = [group for group in found if not group & names]
        found.append(names.union(*touching))
    return found

"""The check that nothing was missed: rows must sum to the gradient's own dot product."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tutelage.errors import UnsupportedStudentError
from tutelage.per_example.module_calls import Call
from tutelage.per_example.row_arithmetic import gradient_dot
from tutelage.types import Params

TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}
"""largest gap, relative to the sum of absolute shares; ``ROUNDED`` for shorter floats"""
ROUNDED = 5e-2
NOISE = 1e-2
"""part of that tolerance by which a layer may miss, relative to the shares of all layers"""


def check_sums(
    calls: Sequence[Call], shares: Sequence[Tensor], gradient: Params, direction: Params
) -> Tensor:
    """Hold the rows' sums, layer by layer, against the gradient's dot product."""
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
    """Dot product of the gradient of some parameters with the direction."""
    return torch.stack([gradient_dot(gradient[k], direction[k]).double() for k in group]).sum()


def tolerance(calls: Sequence[Call], gradient: Params) -> float:
    """How far sums may differ, by the shortest floats that took part."""
    kinds = {g.dtype for g in gradient.values()}
    kinds |= {kind for call in calls for kind in (call.kind, call.store) if kind is not None}
    return max(TOLERANCE.get(kind, ROUNDED) for kind in kinds)


def merge_overlapping(sets: list[set[str]]) -> list[set[str]]:
    """Unite sets that have a name in common."""
    found: list[set[str]] = []
    for names in filter(None, sets):
        touching = [group for group in found if group & names]
        found = [group for group in found if not group & names]
        found.append(names.union(*touching))
    return found

"""What a student's own forward and backward pass reveals about every row's gradient."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tutelage.alignments.calls import Call
from tutelage.errors import UnsupportedStudentError
from tutelage.records import Params
from tutelage.trees import inner

TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}
"""largest gap of the sum check, relative to the rows' absolute sum; 5e-2 for shorter floats"""


@dataclass
class Recording:
    """One forward and backward pass, ready to be asked for dot products once or many times."""

    names: list[str]
    rows: int
    """B"""
    calls: list[Call] = field(default_factory=list)
    gradient: Params = field(default_factory=dict)
    """of the loss that was differentiated, by the student's parameter names"""
    unplaced: set[str] = field(default_factory=set)
    """modules in whose output no dimension counts rows"""

    @property
    def uncovered(self) -> list[str]:
        """Parameters that got a gradient from something else than a recorded module."""
        seen = {name for call in self.calls for name in call.unit.params.values()}
        return [name for name in self.gradient if name not in seen]

    def ones(self) -> Tensor:
        """Coefficients where the sum of the losses was differentiated.

        Returns:
            [B].
        """
        first = next(iter(self.gradient.values()), torch.zeros(()))
        return torch.ones(self.rows, dtype=first.dtype, device=first.device)

    def dots(self, direction: Params, coefficients: Tensor) -> Tensor:
        """``<d l_i / d theta, g>`` for every row of the batch.

        Args:
            direction: g, by the student's parameter names; a missing one counts as zero.
            coefficients: d loss / d l_i [B] of the loss differentiated; 1/B for a mean.

        Returns:
            [B], on the scale of the sum of the losses.

        Raises:
            UnsupportedStudentError: If a parameter is used outside the recorded modules.
            ValueError: If a coefficient is zero: nothing is known of that row.
        """
        known = {k: v.detach() for k, v in direction.items() if k in self.names}
        missing = [name for name in self.uncovered if name in known]
        if missing:
            raise UnsupportedStudentError(
                f"The student uses {', '.join(missing)} outside of its modules' forward "
                "passes, or where no dimension counts examples, so nothing was recorded. Use "
                "method='forward', or leave them out by layers=."
            )
        if bool((coefficients == 0).any()):
            raise ValueError(
                "Rows of weight zero leave nothing to read off: use method='forward'."
            )
        shares = [call.dots(known) for call in self.calls] if known else []
        if not shares:
            return torch.zeros_like(coefficients)
        scaled = torch.stack([share.to(coefficients.dtype) for share in shares]).sum(0)
        self._check(scaled, known)
        return scaled / coefficients

    def _check(self, scaled: Tensor, direction: Params) -> None:
        reached = {k: g for k, g in self.gradient.items() if k in direction}
        if not reached:
            return
        whole = inner(reached, direction)
        gap = (scaled.sum() - whole).abs()
        bound = TOLERANCE.get(whole.dtype, 5e-2) * scaled.abs().sum()
        if self._rounded:
            bound = 5e-2 * scaled.abs().sum()
        if not bool(gap <= bound + 1e-30):
            raise UnsupportedStudentError(
                f"Row by row the dot products sum to {float(scaled.sum()):.6g}, but the "
                f"gradient gives {float(whole):.6g}: the student uses "
                f"{self._suspects(direction)} also outside of its modules' forward passes. "
                "Use method='forward'."
            )

    @property
    def _rounded(self) -> bool:
        return any(call.store is not None for call in self.calls)

    def _suspects(self, direction: Params) -> str:
        gaps = {}
        for name, g in self.gradient.items():
            if name in direction:
                alone = {name: direction[name]}
                sums = [call.dots(alone).sum() for call in self.calls]
                gaps[name] = float((torch.stack(sums).sum() - inner({name: g}, alone)).abs())
        return max(gaps, key=gaps.__getitem__)


def reached(call: Call) -> bool:
    """Whether the loss depends on what a call gave.

    Args:
        call: A call.

    Returns:
        False where no gradient came back to it.
    """
    return bool(call.sums) or any(out.delta is not None for out in call.outputs)

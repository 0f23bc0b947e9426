"""What a student's own forward and backward pass reveals about every row's gradient."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tutelage.errors import UnsupportedStudentError, UsageError, nearest
from tutelage.per_example.check_sum import check_sums
from tutelage.per_example.coupling import RowCheck
from tutelage.per_example.module_calls import Call
from tutelage.types import Params


@dataclass
class Recording:
    """One forward and backward pass, ready to be asked for dot products once or many times."""

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
        """Parameters that got a gradient from something else than a recorded module."""
        seen = {name for call in self.calls for name in call.unit.params.values()}
        return [name for name in self.gradient if name not in seen]

    def verify(self, losses: Tensor, *, row_by_row: bool = False) -> None:
        """Check that no row's loss depends on other rows, so that ``dots`` can be exact.

        Call it between forward and backward pass where the objective is not known to be row by
        row; where rows depend on one another ``dots`` raises UnsupportedStudentError then.

        Args:
            losses: Of the rows [B], attached to the student's graph.
            row_by_row: Whether the objective is known to look at one row at a time.
        """
        self.check.verify(losses, row_by_row=row_by_row)

    def finish(self) -> None:
        """Let go of all that no gradient came to."""
        self.check.outputs.clear()
        self.called = bool(self.calls)
        self.calls = [call for call in self.calls if call.reached]

    def ones(self) -> Tensor:
        """Coefficients where the sum of the losses was differentiated.

        Returns:
            [B].
        """
        first = next(iter(self.gradient.values()), torch.zeros(()))
        return torch.ones(self.rows, dtype=first.dtype, device=first.device)

    def dots(self, direction: Params, coefficients: Tensor) -> Tensor:
        """``<d l_i / d theta, g>`` for every row of the batch.

        Note: Raises UsageError where the direction does not fit the student or no gradient
            came, and ValueError where a coefficient is zero: nothing is known of that row.
        """
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
                "No gradient came to what was recorded. Run the backward pass inside of the "
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

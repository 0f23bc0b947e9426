"""Detection of rows that depend on one another."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from tutelage.functional.module_state import on_state, state_of
from tutelage.per_example.row_arithmetic import tensors_in
from tutelage.per_example.units import scales_by_frequency, uses_batch_statistics
from tutelage.precision import upcast
from tutelage.types import Params

FIRST = 4
"""passes of a student that are all checked; after them those numbered by powers of two"""
MOST = 64
"""different graphs of one student up to which a new one is checked"""
DIGIT = 16
"""factors that distinguish rows: powers of two, by which numbers are multiplied exactly"""
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""largest gap relative to the sum of absolute values; ``ROUNDED`` for shorter floats"""
ROUNDED = 3e-2
UNKNOWN = "it is not known whether the loss of a row depends on other rows"
OBJECTIVE = "the objective's loss of a row depends on what the student gives for other rows"
STUDENT = "what the student gives for a row depends on other rows"


@dataclass
class KnownGraphs:
    """The graphs of a student that were checked."""

    passes: int = 0
    graphs: set[int] = field(default_factory=set)
    known: set[tuple[int, int]] = field(default_factory=set)
    """graphs and numbers of rows that were checked"""
    coupled: dict[tuple[int, int], str] = field(default_factory=dict)
    """those whose rows depend on one another, and how"""

    def due(self, key: tuple[int, int]) -> bool:
        """Count a pass, and return whether to check it."""
        self.passes += 1
        new = key not in self.known
        self.known.add(key)
        self.graphs.add(key[0])
        return new or self.passes <= FIRST or self.passes & (self.passes - 1) == 0


def couples_rows(student: nn.Module) -> bool:
    """Whether the student's rows are known to depend on one another.

    By layers that use batch statistics, and by what earlier passes showed.
    """
    found = KNOWN.get(student)
    return (found is not None and bool(found.coupled)) or any(
        uses_batch_statistics(m) or scales_by_frequency(m) for m in student.modules()
    )


KNOWN: WeakKeyDictionary[nn.Module, KnownGraphs] = WeakKeyDictionary()


class RowCheck:
    """Checks that rows of a recorded pass are independent.

    The gradient of ``sum_i u_i l_i`` in row i of any output is ``u_i`` times that of
    ``sum_i l_i`` where no other row's loss depends on it. That is checked between student and
    objective at every pass, and at every recorded module now and then: at the first passes, and
    whenever the graph has other operators or the batch another number of rows than before.

    Args:
        student: The student.
        rows: B.
        params: The recorded ones that it runs on.
        exact: Whether batch statistics count; else each row's share of them is what is wanted.
    """

    def __init__(
        self, student: nn.Module, rows: int, params: Params, *, exact: bool = False
    ) -> None:
        self.student = student
        self.rows = rows
        self.params = params
        self.exact = exact
        self.outputs: list[Tensor] = []
        """what the student gave, call by call"""
        self.found: dict[tuple[int, int], tuple[Tensor, Tensor]] | None = None
        """gradients of the modules' outputs in a backward pass of the check; else None"""
        self.reason = ""
        """why rows cannot be distinguished; empty where they can"""

    def keep_outputs(self, result: object) -> None:
        """Collect the outputs of a call of the student."""
        self.outputs += [t for t in tensors_in(result) if t.requires_grad]

    def note(self, output: tuple[int, int], dim: int, delta: Tensor) -> None:
        """Record one number for each row of a gradient."""
        assert self.found is not None
        by_row = upcast(delta.detach().movedim(dim, 0).reshape(self.rows, -1))
        steps = torch.arange(1, by_row.shape[1] + 1, dtype=by_row.dtype, device=by_row.device)
        numbers = by_row * torch.cos(steps)
        # the tolerance is that of the gradient's own type
        bound = numbers.abs().sum(1) * TOLERANCE.get(delta.dtype, ROUNDED)
        self.found[output] = numbers.sum(1), bound

    def verify(self, losses: Tensor, *, row_by_row: bool = False) -> None:
        """Check a pass, between forward and backward pass."""
        if losses.shape != (self.rows,) or not losses.requires_grad:
            self.reason = self.reason or UNKNOWN
            return
        if self.rows == 1:
            return
        checked = KNOWN.setdefault(self.student, KnownGraphs())
        key = hash((graph_of(losses), *self._kind())), self.rows
        if key in checked.coupled:
            self.reason = checked.coupled[key]
            return
        self.found = {}
        try:
            reason = self._reason(losses, checked, key, row_by_row=row_by_row)
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError):
            reason = UNKNOWN
        finally:
            self.found = None
        if reason:
            self.reason = reason
            if bool(losses.isfinite().all()):
                checked.coupled[key] = reason

    def verify_outputs(self, result: object) -> None:
        """Check the student alone, where its losses are unknown."""
        fitting = [
            t for t in tensors_in(result) if t.requires_grad and t.shape[:1] == (self.rows,)
        ]
        if fitting:
            numbers = [fixed_projection(t.reshape(self.rows, -1)) for t in fitting]
            scores = torch.stack([n.to(numbers[0].dtype) for n in numbers]).sum(0)
            self.verify(scores, row_by_row=True)
        elif not self.reason:
            self.reason = UNKNOWN

    def _kind(self) -> tuple[Hashable, ...]:
        # what a pass depends on beside its graph
        if not self.exact:
            return tuple(self.params)
        return *self.params, *map(uses_batch_statistics, self.student.modules())

    def _reason(
        self, losses: Tensor, checked: KnownGraphs, key: tuple[int, int], *, row_by_row: bool
    ) -> str:
        due = checked.due(key)
        if row_by_row and not due:
            return ""
        factors = factors_for(losses, checked.passes, digits=2 if due else 1)
        if reason := self._reason_in_objective(losses, factors):
            return reason
        shared = not self.exact and any(map(uses_batch_statistics, self.student.modules()))
        if not due or shared:
            return ""
        if len(checked.graphs) > MOST:
            return UNKNOWN
        return "" if self._apart_in_student(losses, factors) else STUDENT

    def _reason_in_objective(self, losses: Tensor, factors: list[Tensor]) -> str:
        found = [
            [g for g in gradients_of(losses, self.outputs, u) if g is not None] for u in factors
        ]
        if not found[0] or any(g.shape[:1] != (self.rows,) for g in found[0]):
            return UNKNOWN
        once = [rows_of(g) for g in found[0]]
        apart = all(
            in_proportion(first, rows_of(g), u)
            for u, grads in zip(factors[1:], found[1:], strict=True)
            for first, g in zip(once, grads, strict=True)
        )
        return "" if apart else OBJECTIVE

    def _apart_in_student(self, losses: Tensor, factors: list[Tensor]) -> bool:
        passes = [self._pass(losses, u) for u in factors]
        return all(
            found.keys() == passes[0].keys()
            and all(in_proportion(passes[0][k], found[k], u) for k in found)
            for u, found in zip(factors[1:], passes[1:], strict=True)
        )

    def _pass(
        self, losses: Tensor, factors: Tensor
    ) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
        self.found = found = {}
        # a part that is run again in the backward pass writes to its buffers again
        with on_state(self.student, state_of(self.student)):
            gradients_of(losses, list(self.params.values()), factors)
        return found


def gradients_of(
    losses: Tensor, tensors: Sequence[Tensor], factors: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients of scaled losses, keeping the graph."""
    if not tensors:
        return ()
    return torch.autograd.grad(losses, tensors, factors, retain_graph=True, allow_unused=True)


def rows_of(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """A gradient flattened by row, and its rounding bound."""
    numbers = upcast(gradient.reshape(len(gradient), -1))
    bound = numbers.abs().sum(1, keepdim=True) * TOLERANCE.get(gradient.dtype, ROUNDED)
    return numbers, bound


def in_proportion(
    once: tuple[Tensor, Tensor], scaled: tuple[Tensor, Tensor], factors: Tensor
) -> bool:
    """Whether a gradient scales with the factors of its rows."""
    u = factors.reshape(-1, *[1] * (once[0].ndim - 1)).to(once[0])
    gap = (scaled[0] / u - once[0]).abs()
    return bool((gap <= torch.maximum(once[1], scaled[1] / u)).all())


def factors_for(losses: Tensor, number: int, digits: int) -> list[Tensor]:
    """Ones, and two sets of powers of two that distinguish 256 rows."""
    rows = len(losses)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(number))
    parts = [order % DIGIT, order // DIGIT % DIGIT][: digits if rows > DIGIT else 1]
    powers = [2.0 ** (part - DIGIT // 2) for part in parts]
    return [torch.ones_like(losses), *(p.to(losses) for p in powers)]


def fixed_projection(values: Tensor) -> Tensor:
    """Project rows on a fixed vector without zeros."""
    steps = torch.arange(1, values.shape[1] + 1, dtype=values.dtype, device=values.device)
    return (values * torch.cos(steps)).sum(1)


def graph_of(losses: Tensor) -> int:
    """A hash of the operators in a tensor's graph."""
    places: dict[object, int] = {}
    operators: list[object] = []
    waiting: list[object] = [losses.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in places:
            operators.append(places.get(node, -1))
            continue
        places[node] = len(places)
        operators.append(type(node).__name__)
        waiting.extend(before for before, _ in node.next_functions)  # pyright: ignore
    return hash(tuple(operators))

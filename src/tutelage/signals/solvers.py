"""Iterative solvers of ``H x = v``."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Protocol, runtime_checkable

import torch

from tutelage.functional.trees import inner, is_finite, plus
from tutelage.types import Params
from tutelage.validation.ranges import (
    at_least_one,
    not_negative,
    require_above_zero,
    require_not_negative,
)

Matvec = Callable[[Params], Params]


@runtime_checkable
class Solver(Protocol):
    """Solves ``H x = v`` approximately, by products with H."""

    def __call__(self, matvec: Matvec, v: Params) -> Params:
        """Solve."""
        ...


@dataclass(frozen=True)
class Neumann:
    """``x = scale * sum_{j=0..terms} (I - scale H)^j v``: ``terms`` products by H.

    ``terms=0`` is the identity approximation ``scale * v``; ``terms=k`` equals k + 1 unrolled
    SGD steps of rate ``scale`` from a fixed point. Converges where ``0 < scale * H < 2``.

    Source: Lorraine et al. 2020, Optimizing Millions of Hyperparameters by Implicit
    Differentiation; Raghu et al. 2021, algorithm 2 (one "term" there is ``terms=1`` here).

    Raises:
        UsageError: If ``terms`` is negative, or ``scale`` not positive and finite.
    """

    terms: int
    scale: float

    def __post_init__(self) -> None:
        require_not_negative("terms", self.terms)
        require_above_zero("scale", self.scale)

    def __call__(self, matvec: Matvec, v: Params) -> Params:
        """Sum the series.

        Note: numbers that are not finite give NaN.
        """
        term, total, size = v, v, float(inner(v, v))
        for number in range(self.terms):
            before, image = term, matvec(term)
            term = plus(before, image, -self.scale)
            total = plus(total, term)
            grown = float(inner(term, term)) / size if size else 0.0
            if not isfinite(grown) and not (isfinite(size) and is_finite(term)):
                return _nan_like(v)
            if grown > 1e4:  # a term a hundred times as long as v
                curvature = float(inner(before, image)) / float(inner(before, before))
                raise FloatingPointError(
                    f"The Neumann series diverges: term {number + 1} is {grown**0.5:.3g} times "
                    f"as long as the first with scale={self.scale:g}. "
                    f"{_divergence_hint(curvature)}"
                )
        return {k: self.scale * t for k, t in total.items()}


def _divergence_hint(curvature: float) -> str:
    """What makes a diverging Neumann series converge."""
    if not math.isfinite(curvature):
        return f"The curvature along it is {curvature}: the student's gradient is not finite."
    if curvature > 0:
        return (
            f"Lower scale below 2 / (largest Hessian eigenvalue), here about "
            f"{2 / curvature:.3g}, or use ConjugateGradient."
        )
    return (
        f"The curvature along it is {curvature:.3g}, and where it is not positive no scale "
        f"makes the series converge: use ConjugateGradient with damping above {-curvature:.3g}."
    )


@dataclass(frozen=True)
class ConjugateGradient:
    """Solve ``(H + damping I) x = v`` by at most ``terms`` conjugate-gradient steps.

    Raises:
        UsageError: If ``terms`` is below 1, or another number negative or not finite.
    """

    terms: int
    damping: float = 0.0
    tolerance: float = 1e-10
    """stop where the residual's norm is this share of that of ``v``"""

    def __post_init__(self) -> None:
        at_least_one(self, "terms")
        not_negative(self, "damping", "tolerance")

    def __call__(self, matvec: Matvec, v: Params) -> Params:
        """Iterate.

        Note: numbers that are not finite give NaN.
        """
        x = {k: torch.zeros_like(t) for k, t in v.items()}
        residual, direction = v, v
        size = first = float(inner(v, v))
        for number in range(self.terms):
            if size <= self.tolerance**2 * first:
                break
            image = plus(matvec(direction), direction, self.damping)
            curvature = float(inner(direction, image))
            if not isfinite(curvature):  # the teacher's step is left out
                return _nan_like(v)
            if curvature <= 0:
                met = curvature / float(inner(direction, direction))
                raise FloatingPointError(
                    f"Conjugate gradients met curvature {met:.3g} at step {number + 1}, with "
                    f"damping={self.damping:g}. {self._divergence_hint(met)}"
                )
            x = plus(x, direction, size / curvature)
            residual = plus(residual, image, -size / curvature)
            smaller = float(inner(residual, residual))
            direction = plus(residual, direction, smaller / size)
            size = smaller
        return x

    def _divergence_hint(self, curvature: float) -> str:
        return (
            f"The Hessian is not positive. Raise damping above {self.damping - curvature:.3g}. "
            "A Neumann series diverges there, too."
        )


def _nan_like(v: Params) -> Params:
    # what a teacher's step is left out for
    return {k: torch.full_like(t, torch.nan) for k, t in v.items()}

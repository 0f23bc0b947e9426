"""One step of momentum SGD in fixed point."""

from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.functional.flat_params import join
from tutelage.functional.optim import Settings
from tutelage.signals.fixed_point import UNSET, fixed, power, refitted, value_of
from tutelage.types import Params


class FixedPointState(NamedTuple):
    """The fixed-point state of some parameters, concatenated."""

    theta: Tensor
    """int64"""
    velocity: Tensor
    """int64"""
    buffer: Tensor
    """int64: bits that products with the momentum have lost"""
    theta_exponent: Tensor
    """int16: of the value of each last bit"""
    velocity_exponent: Tensor
    """int16"""


class Refit(NamedTuple):
    """Numbers before a step changed their exponents."""

    places: tuple[Tensor, ...]
    theta: Tensor
    velocity: Tensor
    theta_exponent: Tensor
    velocity_exponent: Tensor


class FixedPointStep(NamedTuple):
    """The change of some concatenated parameters by a step, in floating point."""

    numbers: FixedPointState
    theta: Tensor
    """float64: the parameters before it"""
    velocity: Tensor
    """float64: their velocity before it"""
    added: Tensor
    """float64: the gradient as it is added to the velocity"""
    mu: float
    lr: float

    @classmethod
    def of(
        cls, now: FixedPointState, gradient: Params, names: list[str], s: Settings
    ) -> "FixedPointStep":
        """Compute the change."""
        theta = value_of(now.theta, now.theta_exponent)
        velocity = value_of(now.velocity, now.velocity_exponent)
        added = decayed_gradient(join(gradient, names).double(), theta, s)
        return cls(now, theta, velocity, added, s["momentum"], s["lr"])

    @property
    def after(self) -> Tensor:
        """The velocity after the step, float64."""
        return self.mu * self.velocity + self.added

    @property
    def finite(self) -> bool:
        """Whether velocity and parameters are finite after the step."""
        after = self.after
        reached = self.theta - self.lr * after
        if bool((after.sum() + reached.sum()).isfinite()):  # one that is not shows in a sum
            return True
        return bool((after.isfinite() & reached.isfinite()).all())

    @property
    def sizes(self) -> tuple[Tensor, Tensor]:
        """The largest magnitudes of parameters and velocity in the step."""
        after = self.after
        moved = torch.maximum(self.theta.abs(), (self.lr * after).abs())
        largest = torch.maximum(self.velocity.abs(), self.added.abs())
        return moved, torch.maximum(largest, after.abs())

    def refitted(self) -> tuple[FixedPointState, Refit | None]:
        """The state with exponents that fit the step."""
        now, (theta_size, velocity_size) = self.numbers, self.sizes
        theta_exponent = refitted(theta_size, now.theta_exponent)
        enough = power(theta_exponent) / max(abs(self.lr), 1e-300)
        velocity_exponent = refitted(velocity_size, now.velocity_exponent, enough)
        exponents = theta_exponent, velocity_exponent
        if theta_exponent is now.theta_exponent and velocity_exponent is now.velocity_exponent:
            return now, None
        another = (theta_exponent != now.theta_exponent) & (now.theta_exponent != UNSET)
        another |= (velocity_exponent != now.velocity_exponent) & (
            now.velocity_exponent != UNSET
        )
        theta, velocity, refit = now.theta, now.velocity, None
        if bool(another.any()):
            places = another.nonzero(as_tuple=True)
            kept = theta, velocity, now.theta_exponent, now.velocity_exponent
            refit = Refit(places, *(x[places] for x in kept))
            theta = torch.where(another, fixed(self.theta, theta_exponent), theta)
            velocity = torch.where(another, fixed(self.velocity, velocity_exponent), velocity)
        return FixedPointState(theta, velocity, now.buffer, *exponents), refit


def parameter_change(now: FixedPointState, lr: float) -> Tensor:
    """What a step subtracts from the parameters."""
    return fixed(value_of(now.velocity, now.velocity_exponent) * lr, now.theta_exponent)


def decayed_gradient(gradient: Tensor, param: Tensor, s: Settings) -> Tensor:
    """The gradient with weight decay, as added to the velocity."""
    g = -gradient if s["maximize"] else gradient
    return g + s["weight_decay"] * param if s["weight_decay"] else g

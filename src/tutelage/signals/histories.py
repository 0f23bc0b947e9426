"""Reversal of momentum SGD: earlier states from later ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.functional.flat_params import alike, join, part
from tutelage.functional.optim import Settings
from tutelage.signals.fixed_point import (
    BUFFER_MAX,
    UNSET,
    exponent_for,
    fixed,
    grow,
    momentum_fraction,
    power,
    refitted,
    shrink,
    value_of,
)
from tutelage.types import Params, Step


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


@dataclass
class FloatHistory:
    """Reverses steps in floating point; rounding errors grow by ``1 / mu`` a step."""

    params: Params
    velocity: Params

    def params_before(self, step: Step) -> Params:
        """``theta = theta' + eta v'``, kept for the next call."""
        undone = {
            k: self.params[k] + s["lr"] * self.velocity[k] for k, s in step.settings.items()
        }
        self.params = self.params | undone
        return self.params

    def undo_velocity(self, step: Step, gradient: Params) -> None:
        """``v = (v' - g) / mu``."""
        for k, s in step.settings.items():
            g = decayed_gradient(gradient[k], self.params[k], s)
            self.velocity = self.velocity | {k: (self.velocity[k] - g) / s["momentum"]}


@dataclass
class ExactHistory:
    """Takes and reverses steps in fixed point, without loss of bits.

    Multiplying a whole number by mu = n / d drops bits; they go into a buffer beside it, which
    gives them back when the step is undone: log2(d / n) bits per parameter and step.

    The value of its last bit is each number's own, 2^-50 of what the number is when it first
    moves. Where a number grows beyond what it can hold, or shrinks until it lacks bits, it gets
    another last bit, and the number as it was before is stored.

    Source: Maclaurin et al. 2015, Gradient-based Hyperparameter Optimization through Reversible
    Learning, algorithm 3.
    """

    types: Mapping[str, torch.dtype]
    theta: dict[str, Tensor]
    velocity: dict[str, Tensor]
    buffers: dict[str, Tensor]
    theta_exponents: dict[str, Tensor]
    velocity_exponents: dict[str, Tensor]
    stored: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    """full buffers, under the step that filled them and their parameter"""
    refits: dict[tuple[int, str], Refit] = field(default_factory=dict)
    """under the step and the first parameter of their group"""
    taken: int = 0

    @classmethod
    def start(cls, params: Params, velocity: Params) -> "ExactHistory":
        """The history before the first step."""
        theta = {k: p.double() for k, p in params.items()}
        rest = {k: velocity[k].double() if k in velocity else p * 0 for k, p in theta.items()}
        of_theta = {k: exponent_for(p.abs()) for k, p in theta.items()}
        of_velocity = {k: exponent_for(v.abs()) for k, v in rest.items()}
        return cls(
            {k: p.dtype for k, p in params.items()},
            {k: fixed(p, of_theta[k]) for k, p in theta.items()},
            {k: fixed(v, of_velocity[k]) for k, v in rest.items()},
            {k: torch.zeros_like(p, dtype=torch.int64) for k, p in params.items()},
            of_theta,
            of_velocity,
        )

    @property
    def params(self) -> Params:
        """The parameters in their own dtypes."""
        return self._seen(self.theta, self.theta_exponents)

    @property
    def velocities(self) -> Params:
        """The momentum buffers in the parameters' dtypes."""
        return self._seen(self.velocity, self.velocity_exponents)

    def step(self, step: Step, gradient: Params) -> bool:
        """Take a step: ``v' = mu v + g``, ``theta' = theta - eta v'``."""
        groups = self._groups([k for k in step.settings if k in gradient], step)
        changes = [
            FixedPointStep.of(self._of(n), gradient, n, step.settings[n[0]]) for n in groups
        ]
        if not all(change.finite for change in changes):  # before anything is changed
            return False
        for names, change in zip(groups, changes, strict=True):
            s = step.settings[names[0]]
            mu = momentum_fraction(s["momentum"])
            now, refit = change.refitted()
            if refit is not None:
                self.refits[self.taken, names[0]] = refit
            buffer = now.buffer
            if int(buffer.max()) > BUFFER_MAX // mu.denominator:
                self.stored |= {(self.taken, k): self.buffers[k] for k in names}
                buffer = torch.zeros_like(buffer)
            velocity, buffer = shrink(now.velocity, buffer, mu)
            velocity = velocity + fixed(change.added, now.velocity_exponent)
            now = now._replace(velocity=velocity, buffer=buffer)
            self._put(names, now._replace(theta=now.theta - parameter_change(now, s["lr"])))
        self.taken += 1
        return True

    def params_before(self, step: Step) -> Params:
        """Reverse the step's change of the parameters."""
        for names in self._groups(step.settings, step):
            now = self._of(names)
            now = now._replace(
                theta=now.theta + parameter_change(now, step.settings[names[0]]["lr"])
            )
            if refit := self.refits.get((self.taken - 1, names[0])):
                theta = now.theta.index_put(refit.places, refit.theta)
                exponent = now.theta_exponent.index_put(refit.places, refit.theta_exponent)
                now = now._replace(theta=theta, theta_exponent=exponent)
            self._put(names, now)
        return self.params

    def undo_velocity(self, step: Step, gradient: Params) -> None:
        """Reverse the step's change of the velocity; after ``params_before``."""
        self.taken -= 1
        for names in self._groups(step.settings, step):
            s = step.settings[names[0]]
            mu = momentum_fraction(s["momentum"])
            now = self._of(names)
            change = FixedPointStep.of(now, gradient, names, s)
            velocity = now.velocity - fixed(change.added, now.velocity_exponent)
            velocity, buffer = grow(velocity, now.buffer, mu)
            exponent = now.velocity_exponent
            if refit := self.refits.pop((self.taken, names[0]), None):
                velocity = velocity.index_put(refit.places, refit.velocity)
                exponent = exponent.index_put(refit.places, refit.velocity_exponent)
            self._put(
                names,
                now._replace(velocity=velocity, buffer=buffer, velocity_exponent=exponent),
            )
            for k in names:
                self.buffers[k] = self.stored.pop((self.taken, k), self.buffers[k])

    def bits(self, steps: int) -> float:
        """Bits stored beside the state, per parameter and step."""
        held = sum(t.numel() for t in self.buffers.values())
        kept = [*self.buffers.values(), *self.stored.values()]
        for refit in self.refits.values():
            kept += [*refit.places, *refit[1:]]
        size = sum(t.numel() * t.element_size() for t in kept)
        return 8.0 * size / (max(held, 1) * max(steps, 1))

    def _seen(self, numbers: dict[str, Tensor], exponents: dict[str, Tensor]) -> Params:
        return {k: value_of(x, exponents[k]).to(self.types[k]) for k, x in numbers.items()}

    def _groups(self, moved: Iterable[str], step: Step) -> list[list[str]]:
        return alike(self.theta, moved, step.settings, {})

    def _parts(self) -> tuple[dict[str, Tensor], ...]:
        exponents = self.theta_exponents, self.velocity_exponents
        return self.theta, self.velocity, self.buffers, *exponents

    def _of(self, names: list[str]) -> FixedPointState:
        return FixedPointState(*(join(kept, names) for kept in self._parts()))

    def _put(self, names: list[str], numbers: FixedPointState) -> None:
        for kept, new in zip(self._parts(), numbers, strict=True):
            kept |= part(new, names, kept)

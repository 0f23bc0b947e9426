"""Going back through momentum SGD: earlier states from later ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import torch
from torch import Tensor

from tutelage.joint import alike, join, part
from tutelage.records import Params, Step
from tutelage.rules import Settings

UNIT = 2.0**-40
"""value of the last bit of a fixed-point number"""
ROOM = 2**62
"""largest number that an information buffer may hold"""


@dataclass
class FloatHistory:
    """Undoes steps in floating point; rounding grows by ``1 / mu`` a step."""

    params: Params
    velocity: Params

    def params_before(self, step: Step) -> Params:
        """``theta = theta' + eta v'``; kept, so that the next call goes on from there.

        Args:
            step: The step to undo.

        Returns:
            All parameters before it.
        """
        undone = {
            k: self.params[k] + s["lr"] * self.velocity[k] for k, s in step.settings.items()
        }
        self.params = self.params | undone
        return self.params

    def undo_velocity(self, step: Step, gradient: Params) -> None:
        """``v = (v' - g) / mu``.

        Args:
            step: The step to undo.
            gradient: The loss's gradient at the parameters before it.
        """
        for k, s in step.settings.items():
            g = whole_gradient(gradient[k], self.params[k], s)
            self.velocity = self.velocity | {k: (self.velocity[k] - g) / s["momentum"]}


@dataclass
class ExactHistory:
    """Takes and undoes steps in fixed point, losing no bit.

    Multiplying a whole number by mu = n / d drops bits; they go into a buffer beside it, which
    gives them back when the step is undone: log2(d / n) bits per parameter and step.

    Source: Maclaurin et al. 2015, Gradient-based Hyperparameter Optimization through Reversible
    Learning, algorithm 3.
    """

    types: Mapping[str, torch.dtype]
    theta: dict[str, Tensor]
    velocity: dict[str, Tensor]
    buffers: dict[str, Tensor]
    stored: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    """full buffers, under the step that filled them and their parameter"""
    taken: int = 0

    @classmethod
    def start(cls, params: Params, velocity: Params) -> "ExactHistory":
        """The history of a student that has taken no step yet.

        Args:
            params: Its parameters.
            velocity: Its momentum buffers; what is missing is zero.

        Returns:
            The history.
        """
        rest = {k: velocity.get(k, torch.zeros_like(p)) for k, p in params.items()}
        return cls(
            {k: p.dtype for k, p in params.items()},
            {k: fixed(p) for k, p in params.items()},
            {k: fixed(v) for k, v in rest.items()},
            {k: torch.zeros_like(p, dtype=torch.int64) for k, p in params.items()},
        )

    @property
    def params(self) -> Params:
        """The parameters as the student sees them."""
        return {k: (t.double() * UNIT).to(self.types[k]) for k, t in self.theta.items()}

    @property
    def velocities(self) -> Params:
        """The momentum buffers in the parameters' own types."""
        return {k: (v.double() * UNIT).to(self.types[k]) for k, v in self.velocity.items()}

    def take(self, step: Step, gradient: Params) -> None:
        """Take a step: ``v' = mu v + g``, ``theta' = theta - eta v'``.

        Args:
            step: The step.
            gradient: The loss's gradient at ``params``; a parameter without one is left alone.
        """
        for names in self._groups(gradient, step):
            s, mu = step.settings[names[0]], ratio(step.settings[names[0]]["momentum"])
            theta, velocity, buffer = self._of(names)
            if int(buffer.max()) > ROOM // mu.denominator:
                self.stored |= {(self.taken, k): self.buffers[k] for k in names}
                buffer = torch.zeros_like(buffer)
            velocity, buffer = shrink(velocity, buffer, mu)
            velocity = velocity + fixed_gradient(gradient, names, theta, s)
            self._put(names, theta - scaled(velocity, s["lr"]), velocity, buffer)
        self.taken += 1

    def params_before(self, step: Step) -> Params:
        """Undo the step's change of the parameters.

        Args:
            step: The step to undo.

        Returns:
            All parameters before it.
        """
        for names in self._groups(step.settings, step):
            theta, velocity, buffer = self._of(names)
            theta = theta + scaled(velocity, step.settings[names[0]]["lr"])
            self._put(names, theta, velocity, buffer)
        return self.params

    def undo_velocity(self, step: Step, gradient: Params) -> None:
        """Undo the step's change of the velocity; after ``params_before``.

        Args:
            step: The step to undo.
            gradient: The loss's gradient at the parameters before it.
        """
        self.taken -= 1
        for names in self._groups(step.settings, step):
            s, mu = step.settings[names[0]], ratio(step.settings[names[0]]["momentum"])
            theta, velocity, buffer = self._of(names)
            velocity = velocity - fixed_gradient(gradient, names, theta, s)
            velocity, buffer = grow(velocity, buffer, mu)
            self._put(names, theta, velocity, buffer)
            for k in names:
                self.buffers[k] = self.stored.pop((self.taken, k), self.buffers[k])

    def bits(self, steps: int) -> float:
        """Bits held beside the state, per parameter and step.

        Args:
            steps: How many steps have been taken.

        Returns:
            Bits, the running buffers included.
        """
        held = sum(t.numel() for t in self.buffers.values())
        numbers = held + sum(t.numel() for t in self.stored.values())
        return 64.0 * numbers / (max(held, 1) * max(steps, 1))

    def _groups(self, moved: Iterable[str], step: Step) -> list[list[str]]:
        return alike(self.theta, moved, step.settings, {})

    def _of(self, names: list[str]) -> tuple[Tensor, Tensor, Tensor]:
        parts = (self.theta, self.velocity, self.buffers)
        theta, velocity, buffer = (join(part, names) for part in parts)
        return theta, velocity, buffer

    def _put(self, names: list[str], theta: Tensor, velocity: Tensor, buffer: Tensor) -> None:
        for kept, new in (
            (self.theta, theta),
            (self.velocity, velocity),
            (self.buffers, buffer),
        ):
            kept |= part(new, names, kept)


def fixed_gradient(gradient: Params, names: list[str], theta: Tensor, s: Settings) -> Tensor:
    """The fixed-point gradient that is added to the velocity.

    Args:
        gradient: Of the loss.
        names: The parameters whose fixed-point values ``theta`` joins.
        theta: int64.
        s: The optimiser's settings.

    Returns:
        int64, shaped like ``theta``.
    """
    g = join(gradient, names).double()
    here = theta.double() * UNIT if s["weight_decay"] else theta
    return fixed(whole_gradient(g, here, s))


def whole_gradient(gradient: Tensor, param: Tensor, s: Settings) -> Tensor:
    """The gradient as the optimiser adds it to the velocity.

    Args:
        gradient: Of the loss.
        param: The parameter.
        s: The optimiser's settings.

    Returns:
        With weight decay and the sign of ``maximize``.
    """
    g = -gradient if s["maximize"] else gradient
    return g + s["weight_decay"] * param if s["weight_decay"] else g


def fixed(x: Tensor) -> Tensor:
    """The nearest fixed-point number.

    Args:
        x: Floating-point numbers.

    Returns:
        int64, in units of ``UNIT``.
    """
    return (x.double() / UNIT).round_().long()


def scaled(x: Tensor, factor: float) -> Tensor:
    """A fixed-point number times a float, rounded; the same for the same arguments.

    Args:
        x: int64.
        factor: The factor.

    Returns:
        int64.
    """
    return (x.double() * factor).round_().long()


def ratio(mu: float) -> Fraction:
    """The momentum as a fraction with a small denominator.

    Args:
        mu: In (0, 1).

    Returns:
        Within 1e-9 of it for any momentum written with up to six decimals.
    """
    return Fraction(mu).limit_denominator(1_000_000)


def shrink(x: Tensor, buffer: Tensor, mu: Fraction) -> tuple[Tensor, Tensor]:
    """``x * mu`` on whole numbers, the lost bits going into the buffer.

    Args:
        x: int64.
        buffer: Non-negative int64.
        mu: n / d below 1.

    Returns:
        The product and the new buffer; ``grow`` is the inverse.
    """
    n, d = mu.numerator, mu.denominator
    x, lost = divided(x, d)
    buffer, kept = divided(buffer * d + lost, n)
    return x * n + kept, buffer


def grow(x: Tensor, buffer: Tensor, mu: Fraction) -> tuple[Tensor, Tensor]:
    """The inverse of ``shrink``.

    Args:
        x: int64.
        buffer: Non-negative int64.
        mu: n / d below 1.

    Returns:
        What ``shrink`` was given.
    """
    n, d = mu.numerator, mu.denominator
    x, kept = divided(x, n)
    buffer, lost = divided(buffer * n + kept, d)
    return x * d + lost, buffer


def divided(x: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """Division of whole numbers, rounded down.

    Args:
        x: int64.
        by: Positive.

    Returns:
        The quotient, and what is left over.
    """
    quotient = x.div(by, rounding_mode="floor")
    return quotient, x - quotient * by  # a second division would cost ten times as much

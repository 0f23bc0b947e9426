"""Going back through momentum SGD: earlier states from later ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import torch
from torch import Tensor

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
    stored: list[tuple[int, str, Tensor]] = field(default_factory=list)
    """full buffers, with the step that filled them and their parameter"""
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
        for k in gradient:
            s = step.settings[k]
            mu, g = ratio(s["momentum"]), self._fixed_gradient(k, gradient[k], s)
            if int(self.buffers[k].max()) > ROOM // mu.denominator:
                self.stored.append((self.taken, k, self.buffers[k]))
                self.buffers[k] = torch.zeros_like(self.buffers[k])
            v, self.buffers[k] = shrink(self.velocity[k], self.buffers[k], mu)
            self.velocity[k] = v + g
            self.theta[k] = self.theta[k] - scaled(self.velocity[k], s["lr"])
        self.taken += 1

    def params_before(self, step: Step) -> Params:
        """Undo the step's change of the parameters.

        Args:
            step: The step to undo.

        Returns:
            All parameters before it.
        """
        for k, s in step.settings.items():
            self.theta[k] = self.theta[k] + scaled(self.velocity[k], s["lr"])
        return self.params

    def undo_velocity(self, step: Step, gradient: Params) -> None:
        """Undo the step's change of the velocity; after ``params_before``.

        Args:
            step: The step to undo.
            gradient: The loss's gradient at the parameters before it.
        """
        self.taken -= 1
        for k in reversed(list(step.settings)):
            s = step.settings[k]
            v = self.velocity[k] - self._fixed_gradient(k, gradient[k], s)
            self.velocity[k], self.buffers[k] = grow(v, self.buffers[k], ratio(s["momentum"]))
            if self.stored and self.stored[-1][:2] == (self.taken, k):
                self.buffers[k] = self.stored.pop()[2]

    def bits(self, steps: int) -> float:
        """Bits held beside the state, per parameter and step.

        Args:
            steps: How many steps have been taken.

        Returns:
            Bits, the running buffers included.
        """
        held = sum(t.numel() for t in self.buffers.values())
        numbers = held + sum(t.numel() for _, _, t in self.stored)
        return 64.0 * numbers / (max(held, 1) * max(steps, 1))

    def _fixed_gradient(self, name: str, gradient: Tensor, s: Settings) -> Tensor:
        here = self.theta[name].double() * UNIT
        return fixed(whole_gradient(gradient.double(), here, s))


def whole_gradient(gradient: Tensor, param: Tensor, s: Settings) -> Tensor:
    """The gradient as the optimiser adds it to the velocity.

    Args:
        gradient: Of the loss.
        param: The parameter.
        s: The optimiser's settings.

    Returns:
        With weight decay and the sign of ``maximize``.
    """
    return (-gradient if s["maximize"] else gradient) + s["weight_decay"] * param


def fixed(x: Tensor) -> Tensor:
    """The nearest fixed-point number.

    Args:
        x: Floating-point numbers.

    Returns:
        int64, in units of ``UNIT``.
    """
    return (x.double() / UNIT).round().long()


def scaled(x: Tensor, factor: float) -> Tensor:
    """A fixed-point number times a float, rounded; the same for the same arguments.

    Args:
        x: int64.
        factor: The factor.

    Returns:
        int64.
    """
    return (x.double() * factor).round().long()


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
    buffer = buffer * d + x.remainder(d)
    x = x.div(d, rounding_mode="floor") * n + buffer.remainder(n)
    return x, buffer.div(n, rounding_mode="floor")


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
    buffer = buffer * n + x.remainder(n)
    x = x.div(n, rounding_mode="floor") * d + buffer.remainder(d)
    return x, buffer.div(d, rounding_mode="floor")

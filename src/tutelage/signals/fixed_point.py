"""Fixed-point arithmetic without loss of bits."""

from fractions import Fraction

import torch
from torch import Tensor

from tutelage.errors import UnsupportedStudentError

BITS = 50
"""bits that a number has at first"""
MOST = 2.0**61
"""largest whole number that may be added to another one"""
FEWEST = 2.0**30
"""smallest whole number that has enough bits, where other numbers beside it have no more"""
UNSET = -(2**15)
"""exponent of a number that has been zero so far"""
LOWEST, HIGHEST = -960, 970
BUFFER_MAX = 2**62
"""largest number that an information buffer may hold"""


def power(exponent: Tensor) -> Tensor:
    """``2**exponent``, exactly; the smallest power for an unset exponent."""
    biased = exponent.long().clamp_(min=-HIGHEST) + 1023
    return (biased << 52).view(torch.float64)


def value_of(x: Tensor, exponent: Tensor) -> Tensor:
    """Fixed-point numbers as float64."""
    return x.double() * power(exponent)


def fixed(x: Tensor, exponent: Tensor) -> Tensor:
    """The nearest fixed-point numbers."""
    return (x * power(-exponent.clamp(min=LOWEST))).round_().long()


def exponent_for(size: Tensor) -> Tensor:
    """Exponents of the last bit for numbers of a size."""
    exponent = (size.frexp().exponent - BITS).clamp_(LOWEST, HIGHEST)
    return exponent.masked_fill_(size == 0, UNSET).short()


def refitted(size: Tensor, exponent: Tensor, enough: Tensor | float = 0.0) -> Tensor:
    """Exponents for which numbers neither overflow nor lack bits."""
    unit = power(exponent)
    low, high = (size / unit).aminmax()
    if low >= FEWEST and high <= MOST:  # as nearly always
        return exponent
    coarse = (size < FEWEST * unit) & (size > 0) & (unit * 2.0**BITS > 16 * size.max())
    unfit = (size > MOST * unit) | (coarse & (unit > enough))
    return torch.where(unfit, exponent_for(size), exponent) if unfit.any() else exponent


def momentum_fraction(mu: float) -> Fraction:
    """The momentum as a fraction with a small denominator."""
    found = Fraction(mu).limit_denominator(1_000_000)
    if not found:
        raise UnsupportedStudentError(
            f"Reversible(exact=True) takes a momentum from 1e-6 on, got {mu:.3g}. "
            "Use Unrolled or Replayed for others."
        )
    return found


def shrink(x: Tensor, buffer: Tensor, mu: Fraction) -> tuple[Tensor, Tensor]:
    """``x * mu`` on integers, with the lost bits kept in the buffer."""
    n, d = mu.numerator, mu.denominator
    x, lost = divided(x, d)
    buffer, kept = divided(buffer * d + lost, n)
    return x * n + kept, buffer


def grow(x: Tensor, buffer: Tensor, mu: Fraction) -> tuple[Tensor, Tensor]:
    """The inverse of ``shrink``."""
    return shrink(x, buffer, 1 / mu)


def divided(x: Tensor, by: int) -> tuple[Tensor, Tensor]:
    """Integer division, rounded down, and its remainder."""
    quotient = x.div(by, rounding_mode="floor")
    return quotient, x - quotient * by  # a second division would cost ten times as much

"""What each example adds to a quantity that is reduced as the student's loss is."""

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.losses.objectives import nonzero
from tutelage.precision import wide
from tutelage.teacher import normalise_of
from tutelage.types import Lesson


def pseudo_values(
    problem: BilevelProblem, values: Tensor, weights: Tensor, lesson: Lesson, counted: Tensor
) -> Tensor:
    """``N R - (N - 1) R_{-i}``: R is reduced over all N examples, ``R_{-i}`` over the others.

    The reduction is that of the loss, so that R counts rows by their weights. For equal weights
    ``R`` is a mean and the i-th pseudo-value the i-th value itself. ``R_{-i}`` does not depend
    on what was sampled for example i, as long as that changes no other row or weight: with the
    i-th pseudo-value or with ``N R`` for a reward, the expected score is the same, and the
    pseudo-value leaves out the noise of the other examples' actions.

    Source: Quenouille 1956, Tukey 1958, for the jackknife's pseudo-values.
    """
    values = wide(values)
    weights = weights.reshape(values.shape).to(values.dtype)
    own, mass = _by_example(problem, values, weights, lesson, len(counted))
    number = counted.sum().to(values.dtype)
    number, whole, whole_mass = problem.processes.all_reduce(
        torch.stack([number, own.sum(), mass.sum()])
    ).unbind()
    others = (whole - own) / nonzero(whole_mass - mass)
    relative = number / nonzero(whole_mass)
    found = relative * own + (1 - relative * mass) * others
    return found.where(counted, 0)


def _by_example(
    problem: BilevelProblem, values: Tensor, weights: Tensor, lesson: Lesson, examples: int
) -> tuple[Tensor, Tensor]:
    # a_i and m_i of R = sum_i a_i / sum_i m_i
    shares, group = row_shares(problem, values, lesson), lesson.group
    if problem.processes.size == 1 and len(shares):  # in any unit; equal ones are exactly 1
        shares = shares / nonzero(shares.max())
    zeros = values.new_zeros(examples)
    summed = zeros.index_add(0, group, shares * weights * values)
    rule = normalise_of(problem.teacher)
    if rule == "mean":
        return summed, zeros.index_add(0, group, shares * weights)
    mass = zeros.index_add(0, group, shares)
    if rule == "group":
        return mass * summed / nonzero(zeros.index_add(0, group, shares * weights)), mass
    return summed, mass


def row_shares(problem: BilevelProblem, values: Tensor, lesson: Lesson) -> Tensor:
    """The share of each row in the student's loss where all weights are equal."""
    with torch.enable_grad():
        zeros = torch.zeros_like(values.detach(), requires_grad=True)
        reduced = problem.reduce(zeros, torch.ones_like(zeros), lesson)
        return torch.autograd.grad(reduced, zeros)[0]

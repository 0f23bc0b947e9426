"""One step ahead with ``tutelage.Lookahead``, on the task of ``one_step``."""

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from benchmarks.hypergradients.measure import Build, Case, Once
from benchmarks.hypergradients.one_step import (
    RATE,
    ROWS,
    Iteration,
    by_hand,
    plain,
    with_betty,
    with_higher,
    with_torchopt,
)
from benchmarks.hypergradients.students import Norm, group_norm
from tutelage.bilevel import BilevelProblem
from tutelage.signals import Lookahead
from tutelage.signals.products import Alignment
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Observation, Params, PreparedBatch, Window


class ByLoss(nn.Module):
    """The weight network of the task, as a teacher."""

    normalise: ClassVar = None

    def __init__(self, weigher: nn.Module) -> None:
        super().__init__()
        self.weigher = weigher

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - the seam
        """Weights by loss.

        Args:
            prepared: What the student saw.
            observation: What it revealed.

        Returns:
            [L].
        """
        return self.weigher(observation.losses[:, None])


class Shown(Lookahead):
    """Looks ahead and lets its last estimate be seen."""

    found: ClassVar[list[Tensor]] = []

    def __call__(
        self, problem: BilevelProblem, phi: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate.

        Args:
            problem: See ``Lookahead``.
            phi: See ``Lookahead``.
            window: See ``Lookahead``.
            held_out: See ``Lookahead``.

        Returns:
            The estimate.
        """
        estimate = super().__call__(problem, phi, window, held_out)
        self.found[:] = [torch.cat([g.flatten() for g in estimate.grad.values()])]
        return estimate


def look_ahead(norm: Norm, signal: Lookahead, dtype: torch.dtype) -> Once:
    """Ordinary steps of a tutor.

    Args:
        norm: The student's.
        signal: How the teacher learns.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    it = Iteration(norm, dtype)
    optimizer = torch.optim.SGD(it.student.parameters(), RATE)
    tutor = Tutor(it.student, optimizer, ByLoss(it.weigher), it.learner, signal=signal)
    rows = torch.arange(ROWS)
    batch = Batch(it.inputs, it.targets, rows)
    held_out = Batch(it.held_inputs, it.held_targets, rows)

    def once() -> Tensor | None:
        tutor.step(batch, held_out if tutor.wants_held_out else None)
        return None if signal.evaluate_on != "held-out" else Shown.found[0]

    return once


def ours(norm: Norm) -> dict[str, Build]:
    """Every way of looking ahead.

    Args:
        norm: The student's.

    Returns:
        Variants by name.
    """
    signals = {
        "ours, re-step": Shown(mode="restep"),
        "ours, re-step, ghost": Shown(Alignment("ghost"), mode="restep"),
        "ours, online": Shown(),
        "ours, online, ghost": Shown(Alignment("ghost")),
        "ours, online, forward": Shown(Alignment("forward")),
        "ours, online, lean": Shown(Alignment("one-sided")),
        "ours, online, central": Shown(Alignment("difference")),
        "ours, next batch": Shown(evaluate_on="next"),
        "ours, next, ghost": Shown(Alignment("ghost"), evaluate_on="next"),
        "ours, next, lean": Shown(Alignment("one-sided"), evaluate_on="next"),
    }
    redundant = "online, forward" if norm is nn.BatchNorm2d else ", ghost"
    signals = {k: s for k, s in signals.items() if redundant not in k}  # Automatic's choice
    return {name: partial(look_ahead, norm, signal) for name, signal in signals.items()}


def one_step_case(norm: Norm) -> Case:
    """Meta-Weight-Net.

    Args:
        norm: The student's.

    Returns:
        The case.
    """
    peers: dict[str, Build] = {
        "plain SGD step": partial(plain, norm),
        "plain torch": partial(by_hand, norm),
        "higher": partial(with_higher, norm),
        "torchopt MetaSGD": partial(with_torchopt, norm),
        "betty darts": partial(with_betty, norm),
    }
    return Case("plain SGD step", partial(by_hand, norm), peers | ours(norm))


ONE_STEP = {
    "one step, group norm": one_step_case(group_norm),
    "one step, batch norm": one_step_case(nn.BatchNorm2d),
}

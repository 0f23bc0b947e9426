"""Two training steps with a reward for the first: how its examples helped the second.

The reward of example i is ``<d l_i / d theta_t, g>`` with g the gradient of the second batch's
mean loss at ``theta_{t+1}``.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from benchmarks.alignment.students import ROWS, built
from tutelage.functional.student import evaluate
from tutelage.per_example import (
    Losses,
    Recorder,
    central_dots,
    forward_difference_dots,
    forward_dots,
)
from tutelage.types import Params

RATE = 0.05
Once = Callable[[], Tensor]
"""does two steps and gives the first one's rewards [B]"""


class Pair:
    """A student that takes two steps of SGD, over and over from the same start.

    Args:
        name: The student's.
        dtype: Its type.
        rows: B.
    """

    def __init__(self, name: str, dtype: torch.dtype, rows: int = ROWS) -> None:
        self.student, self.batches = built(name, dtype, rows)
        self.params: dict[str, nn.Parameter] = dict(self.student.named_parameters())

    def losses(self, place: int) -> Tensor:
        """Losses of one of the batches.

        Args:
            place: Which.

        Returns:
            [B].
        """
        inputs, targets = self.batches[place]
        return F.cross_entropy(self.student(inputs), targets, reduction="none")

    def gradient(self, place: int) -> tuple[Tensor, Params]:
        """An ordinary forward and backward pass of a mean loss.

        Args:
            place: Which batch.

        Returns:
            The losses [B], without a graph; the gradient by name.
        """
        self.student.zero_grad()
        losses = self.losses(place)
        losses.mean().backward()
        grads = {k: p.grad for k, p in self.params.items() if p.grad is not None}
        return losses.detach(), grads

    def move(self, gradient: Params) -> None:
        """Take a step.

        Args:
            gradient: By name.
        """
        with torch.no_grad():
            for name, g in gradient.items():
                self.params[name].sub_(g, alpha=RATE)

    def before(self) -> tuple[Params, Params]:
        """Copies of the state that the reward is about, for ways that go back to it.

        Returns:
            Parameters and buffers.
        """
        return (
            {k: p.detach().clone() for k, p in self.params.items()},
            {k: b.clone() for k, b in self.student.named_buffers()},
        )

    def losses_at(self, buffers: Params) -> Callable[[Params], Tensor]:
        """Losses of the first batch as a function of the parameters.

        Args:
            buffers: At which buffers.

        Returns:
            The function.
        """
        inputs, targets = self.batches[0]

        def losses(params: Params) -> Tensor:
            logits, _, _ = evaluate(self.student, params, buffers, inputs)
            return F.cross_entropy(logits, targets, reduction="none")

        return losses


def plain(pair: Pair) -> Once:
    """Two steps, no reward.

    Args:
        pair: The student.

    Returns:
        What does it once; gives the first losses.
    """

    def once() -> Tensor:
        losses, g = pair.gradient(0)
        pair.move(g)
        _, g = pair.gradient(1)
        pair.move(g)
        return losses

    return once


def ghost(pair: Pair, store: torch.dtype | None = None) -> Once:
    """Read off the first step's own passes.

    Args:
        pair: The student.
        store: How to keep what is read off.

    Returns:
        What does it once.
    """
    recorder = Recorder(pair.student, store=store)

    def once() -> Tensor:
        with recorder.record(len(pair.batches[0][1])) as recording:
            losses, g = pair.gradient(0)
        pair.move(g)
        _, g = pair.gradient(1)
        found = recording.dots(g, torch.full_like(losses, 1 / len(losses)))
        pair.move(g)
        return found

    return once


def afterwards(pair: Pair, read: Callable[[Losses, Params, Params, Tensor], Tensor]) -> Once:
    """Go back to the first step once the second one's gradient is there.

    Args:
        pair: The student.
        read: Takes the dot products, from the losses as a function, the first step's
            parameters, the second one's gradient and the first one's losses.

    Returns:
        What does it once.
    """

    def once() -> Tensor:
        params, buffers = pair.before()
        losses, g = pair.gradient(0)
        pair.move(g)
        _, g = pair.gradient(1)
        found = read(pair.losses_at(buffers), params, g, losses)
        pair.move(g)
        return found

    return once


def forward(pair: Pair) -> Once:
    """In forward mode at the first step's parameters.

    Args:
        pair: The student.

    Returns:
        What does it once.
    """
    return afterwards(pair, lambda losses, at, g, _: forward_dots(losses, at, g))


def central(pair: Pair) -> Once:
    """By two more forward passes.

    Args:
        pair: The student.

    Returns:
        What does it once.
    """
    return afterwards(pair, lambda losses, at, g, _: central_dots(losses, at, g))


def difference(pair: Pair) -> Once:
    """By one more forward pass, from the losses that the step knows.

    Args:
        pair: The student.

    Returns:
        What does it once.
    """
    return afterwards(pair, forward_difference_dots)


def naive(pair: Pair) -> Once:
    """A backward pass per example, through the first step's graph.

    Args:
        pair: The student.

    Returns:
        What does it once.
    """

    def once() -> Tensor:
        losses, own = pair.losses(0), list(pair.params.values())
        first = torch.autograd.grad(losses.mean(), own, retain_graph=True)
        moved = {
            k: (p.detach() - RATE * g).requires_grad_()
            for (k, p), g in zip(pair.params.items(), first, strict=True)
        }
        inputs, targets = pair.batches[1]
        loss = F.cross_entropy(functional_call(pair.student, moved, (inputs,)), targets)
        g = torch.autograd.grad(loss, list(moved.values()))
        rows = (torch.autograd.grad(one, own, retain_graph=True) for one in losses)
        found = [
            torch.stack([(a * b).sum() for a, b in zip(row, g, strict=True)]).sum()
            for row in rows
        ]
        return torch.stack(found).detach()

    return once


OURS: dict[str, Callable[[Pair], Once]] = {
    "plain": plain,
    "ghost": ghost,
    "ghost, kept in bfloat16": lambda pair: ghost(pair, torch.bfloat16),
    "forward": forward,
    "difference": difference,
    "central difference": central,
}

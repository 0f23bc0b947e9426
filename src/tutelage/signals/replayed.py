"""Backpropagation through many steps, of which most are taken again instead of being stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import ClassVar, Literal

import torch

from tutelage.records import Batch, Estimate, Params, Step, StudentState, Window
from tutelage.signals.adjoint import Adjoint, through_step
from tutelage.signals.products import Automatic, Product
from tutelage.task import Task
from tutelage.trees import leaves, named_grad


@dataclass(frozen=True)
class Replayed:
    """Exact for every optimiser that has a rule, with one step's graph alive at a time.

    Some states are kept, the others are found again by taking the steps between once more:
    ``"sqrt"`` keeps about 2 sqrt(T) states and takes every step at most twice more, ``"log"``
    about log2(T) states and every step about log2(T) / 2 times more, a number k lies between
    (k states at every level of a k-ary tree).

    A step taken again must give the same numbers bit for bit; where it does not, an error names
    the step, the parameter and the difference.

    Source: Griewank 1992 (binomial checkpointing); Engstrom et al. 2025 (lazy k-ary tree).

    Raises:
        ValueError: If ``steps`` is below 1 or ``memory`` is not one of the above.
    """

    steps: int
    memory: Literal["sqrt", "log"] | int = "sqrt"
    product: Product = field(default_factory=Automatic)
    keeps_start: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}.")
        if self.memory not in ("sqrt", "log") and not (
            isinstance(self.memory, int) and self.memory >= 2
        ):
            raise ValueError(
                f"memory must be 'sqrt', 'log' or a number of states from 2, got {self.memory}."
            )

    def __call__(
        self, task: Task, teacher: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient.

        Args:
            task: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            window: The steps to look back over, with their start.
            held_out: The batch that judges the student at the window's end.

        Returns:
            The gradient that ``Unrolled`` gives.
        """
        assert window.start is not None
        return self.whole(task, teacher, window.start, window.steps, held_out)[0]

    def whole(
        self,
        task: Task,
        teacher: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        """Take the steps and estimate the hypergradient of the student they give.

        Args:
            task: The student learning under the teacher.
            teacher: Teacher parameters, requiring grad.
            start: The student before the first step.
            steps: The steps.
            held_out: The batch that judges the student after them.

        Returns:
            The estimate, and the student at the end.
        """
        arity = {"sqrt": ceil(sqrt(len(steps))), "log": 2}.get(str(self.memory), self.memory)
        assert isinstance(arity, int)
        states = backwards(task, teacher, start, steps, max(arity, 2))
        end = next(states)
        judged = end._replace(params=leaves(end.params))
        loss = task.held_out_loss(judged, teacher, held_out)
        named = {f"teacher/{k}": p for k, p in teacher.items()}
        direct = named_grad(loss, named | judged.params)
        adjoint = Adjoint(
            {k: direct[k] for k in end.params}, {}, {k: direct[f"teacher/{k}"] for k in teacher}
        )
        for step, state in zip(reversed(steps), states, strict=True):
            adjoint = through_step(task, self.product, state, teacher, step, adjoint)
        return Estimate(adjoint.teacher, loss.detach()), end


def backwards(
    task: Task, teacher: Params, start: StudentState, steps: Sequence[Step], arity: int
) -> Iterator[StudentState]:
    """The states of a training run from its end to its start, few of them held at a time.

    Args:
        task: The student learning under the teacher.
        teacher: Teacher parameters.
        start: The student before the first step.
        steps: The steps.
        arity: States kept at every level of the tree, 2 or more.

    Yields:
        The student after the last step, then before it, and so on to ``start``.
    """
    width = ceil(len(steps) / arity)
    starts, state = [], start
    for place in range(0, len(steps), width):
        starts.append((place, state))
        for step in steps[place : place + width]:
            state = task.take(state, teacher, step)
    yield state
    while starts:
        place, first = starts.pop()
        segment = steps[place : place + width]
        states = before_each(task, teacher, first, segment, arity)
        last = next(states)
        again = task.take(last, teacher, segment[-1])
        require_same(again.params, state.params, place + len(segment) - 1)
        state = first
        yield last
        yield from states


def before_each(
    task: Task, teacher: Params, start: StudentState, steps: Sequence[Step], arity: int
) -> Iterator[StudentState]:
    """The state before each of some steps, the last step's first.

    Args:
        task: The student learning under the teacher.
        teacher: Teacher parameters.
        start: The student before the first of ``steps``.
        steps: The steps; one at least.
        arity: States kept at every level of the tree.

    Yields:
        ``len(steps)`` states, ending with ``start``.
    """
    if len(steps) == 1:
        yield start
        return
    width = ceil(len(steps) / arity)
    starts, state = [(0, start)], start
    for place in range(width, len(steps), width):
        for step in steps[place - width : place]:
            state = task.take(state, teacher, step)
        starts.append((place, state))
    del state
    while starts:
        place, first = starts.pop()
        yield from before_each(task, teacher, first, steps[place : place + width], arity)


def require_same(again: Params, before: Params, number: int) -> None:
    """Refuse a step that gave other numbers when it was taken again.

    Args:
        again: Parameters after the step, the second time.
        before: The first time.
        number: The step's place in the run.

    Raises:
        FloatingPointError: If a parameter differs in any bit.
    """
    for name, tensor in again.items():
        if not torch.equal(tensor, before[name]):
            off = float((tensor - before[name]).abs().max())
            raise FloatingPointError(
                f"Replaying step {number} gave another {name}: it differs by up to {off:.3g}. "
                "The student draws random numbers that the step's seed does not govern, keeps "
                "state outside its parameters and buffers, or has diverged."
            )

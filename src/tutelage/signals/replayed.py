"""``Replayed``: backpropagation through many steps with recomputation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, NamedTuple

import torch

from tutelage.bilevel import BilevelProblem
from tutelage.signals.adjoint import Adjoint, ReplayedStep, replay_step
from tutelage.signals.facts import facts_of
from tutelage.signals.products import Automatic, Product
from tutelage.signals.replay_costs import FirstStep
from tutelage.signals.replay_plan import (
    ReplayPlan,
    bytes_of,
    parts_of,
    plan_within,
    sqrt_plan,
    tree_plan,
)
from tutelage.signals.signal import Signal
from tutelage.types import Batch, Estimate, HeldOutLoss, Params, Step, StudentState


@dataclass(frozen=True)
class Replayed(Signal):
    """The hypergradient of ``Unrolled``, with few states and graphs in memory.

    Some states are kept, and the others found again by taking the steps between once more:

    * ``"sqrt"`` keeps about 2 sqrt(T) states and the graphs of sqrt(T) / 2 steps, and takes
      every step at most twice.
    * ``"log"`` keeps about log2(T) states and one graph, and takes every step about
      2 + log2(T) / 2 times.
    * A number k keeps k states at every level of a k-ary tree and one graph; it lies between.

    With a ``budget``, the fastest plan whose memory fits into it, from one that keeps all
    graphs to ``"log"``: states, graphs and what one step and the held-out loss need while they
    are computed. ``plan`` says which, and how much memory and time it takes. For each estimate
    the first step is taken once more and gone back through, to measure its memory.

    A recomputed step must give the same numbers bit for bit; otherwise an error names
    the steps, the parameter and the difference.

    Source: Griewank 1992 (binomial checkpointing); Chen et al. 2016 (segments of about
    sqrt(T) steps); Engstrom et al. 2025 (lazy k-ary tree).

    Raises:
        ValueError: If ``steps`` is below 1, ``memory`` is not one of the above, or another
            than ``"sqrt"`` is given beside ``budget``.
    """

    steps: int
    memory: Literal["sqrt", "log"] | int = "sqrt"
    budget: str | None = None
    """bytes with a unit, or a percentage of free memory: ``"500 MB"``, ``"25%"``"""
    product: Product = field(default_factory=Automatic)

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}.")
        if self.memory not in ("sqrt", "log") and not (
            isinstance(self.memory, int) and self.memory >= 2
        ):
            raise ValueError(
                f"memory must be 'sqrt', 'log' or a number of states from 2, got {self.memory}."
            )
        if self.budget is not None:
            if self.memory != "sqrt":
                raise ValueError("Give memory or budget, not both.")
            bytes_of(self.budget, torch.device("cpu"))

    def estimate_run(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[Estimate, StudentState]:
        """Run the steps and estimate the hypergradient of the final student."""
        evaluation, end = self.start_gradient(problem, teacher_params, start, steps, held_out)
        several, product = len(steps) > 1, self.product
        facts = facts_of(
            problem, teacher_params, start, steps[0], held_out, several=several, product=product
        )
        return Estimate(evaluation.teacher, evaluation.loss, facts), end

    def start_gradient(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch,
    ) -> tuple[HeldOutLoss, StudentState]:
        """Run the steps and differentiate the held-out loss in the initial parameters."""
        plan = self._fitting(
            len(steps), self._first(problem, teacher_params, start, steps, held_out)
        )
        replay = Replay(problem, self.product, teacher_params, plan.arity, plan.width)
        end, replayed, segments = replay.run(start, steps)
        loss, *direct = problem.held_out_gradients(end, teacher_params, held_out)
        adjoint = Adjoint.at(end, *direct)
        del direct
        reached = replayed[0].state.params
        while replayed:
            adjoint = replayed.pop().backward(adjoint)
        for segment in segments:
            replayed = replay.replay_segment(segment, reached)
            while replayed:
                adjoint = replayed.pop().backward(adjoint)
            reached = segment.start.params
        return HeldOutLoss(loss, adjoint.params, adjoint.teacher), end

    def plan(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch | None = None,
    ) -> ReplayPlan:
        """How many states and graphs are kept, and how often a step is computed.

        With a budget the first step and the held-out loss are computed a few times, to measure
        their memory and time; one that is too small is refused by a ``UsageError`` with the
        least that is needed.

        Args:
            problem: The student and its teacher.
            teacher_params: The teacher's parameters.
            start: The student before the steps.
            steps: The steps of the run.
            held_out: The held-out batch; None: memory and time are those without it.

        Returns:
            The plan.
        """
        first = self._first(problem, teacher_params, start, steps, held_out)
        plan = self._fitting(len(steps), first)
        if self.budget is None:
            return plan
        return plan._replace(plain_steps=first.plain_steps(len(steps), plan.passes))

    def _first(
        self,
        problem: BilevelProblem,
        teacher_params: Params,
        start: StudentState,
        steps: Sequence[Step],
        held_out: Batch | None,
    ) -> FirstStep:
        return FirstStep(problem, self.product, teacher_params, start, steps[0], held_out)

    def _fitting(self, steps: int, first: FirstStep) -> ReplayPlan:
        if self.budget is not None:
            budget = bytes_of(self.budget, first.problem.student.device)
            return plan_within(budget, steps, first.memory())
        if self.memory == "sqrt":
            return sqrt_plan(steps)
        return tree_plan(steps, 2 if self.memory == "log" else self.memory)


class Segment(NamedTuple):
    """Consecutive steps of a run."""

    place: int
    """of its first step in the run"""
    start: StudentState
    steps: Sequence[Step]


@dataclass(frozen=True)
class Replay:
    """Runs all steps once, then recomputes segments from the last to the first."""

    problem: BilevelProblem
    product: Product
    teacher_params: Params
    arity: int
    """states kept at every level of the tree"""
    width: int
    """steps of a segment"""

    def run(
        self, start: StudentState, steps: Sequence[Step]
    ) -> tuple[StudentState, list[ReplayedStep], Iterator[Segment]]:
        """Run all steps.

        Returns:
            The final student, the linearised steps of the last segment, and the other
            segments from the last.
        """
        segments = [Segment(0, start, steps)]
        while len(segments[-1].steps) > self.width:
            segments += self._split(segments.pop())
        end, replayed = self._linearised(segments.pop())
        return end, replayed, self._backwards(segments)

    def replay_segment(self, segment: Segment, reached: Params) -> list[ReplayedStep]:
        """Recompute a segment and linearise its steps."""
        end, replayed = self._linearised(segment)
        require_same(end.params, reached, segment)
        return replayed

    def _linearised(self, segment: Segment) -> tuple[StudentState, list[ReplayedStep]]:
        replayed, state = [], segment.start
        for step in segment.steps:
            replayed.append(
                replay_step(self.problem, self.product, state, self.teacher_params, step)
            )
            state = replayed[-1].after()
        return state, replayed

    def _split(self, segment: Segment) -> list[Segment]:
        # the segment in at most ``arity`` parts, each of whole widths
        first, *others = parts_of(len(segment.steps), self.arity, self.width)
        parts, place = [segment._replace(steps=segment.steps[:first])], first
        for length in others:
            steps = segment.steps[place : place + length]
            parts.append(Segment(segment.place + place, self._end(parts[-1]), steps))
            place += length
        return parts

    def _end(self, segment: Segment) -> StudentState:
        # by the gradients that taking the steps again will give: with a graph, some operators
        # round differently
        state = segment.start
        for step in segment.steps:
            state = replay_step(
                self.problem, self.product, state, self.teacher_params, step
            ).after()
        return state

    def _backwards(self, segments: list[Segment]) -> Iterator[Segment]:
        while segments:
            part = segments.pop()
            if len(part.steps) <= self.width:
                yield part
            else:
                yield from self._backwards(self._split(part))


def require_same(again: Params, before: Params, segment: Segment) -> None:
    """Raise if a recomputed segment differs in any bit.

    Note: numbers that are not finite have no bits to compare; the estimate is not finite, too.
    """
    first, last = segment.place, segment.place + len(segment.steps) - 1
    steps = f"step {last}" if first == last else f"steps {first} to {last}"
    for name, tensor in again.items():
        if not torch.equal(tensor, before[name]):
            off = float((tensor - before[name]).abs().max())
            if not isfinite(off):
                continue
            raise FloatingPointError(
                f"Replaying {steps} gave another {name}: it differs by up to {off:.3g}. "
                "The student draws random numbers that the step's seed does not govern, or "
                "keeps state outside its parameters and buffers."
            )

"""Memory and time that a step of ``Replayed`` takes, measured on the first one."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tutelage.bilevel import BilevelProblem
from tutelage.signals.adjoint import Adjoint, ReplayedStep, replay_step
from tutelage.signals.live_bytes import LiveBytes
from tutelage.signals.products import Product
from tutelage.types import Batch, Params, Step, StudentState

TIMES = 3
"""of which the shortest counts"""


class ReplayBytes(NamedTuple):
    """Memory of a run, in parts."""

    state: int
    """parameters, buffers and optimiser state"""
    graph: int
    """of one step, with the state that it starts from"""
    rest: int
    """the most that is alive beside states and graphs"""


class FirstStep(NamedTuple):
    """What is measured: the first step of a run, and the held-out batch."""

    problem: BilevelProblem
    product: Product
    teacher_params: Params
    start: StudentState
    step: Step
    held_out: Batch | None
    """None: the held-out gradient is left out"""

    def memory(self) -> ReplayBytes:
        """Bytes, while the step is taken and gone back through once."""
        replayed, end, state, graph = self._with_sizes()
        adjoint = self._adjoint(end)
        with LiveBytes() as going_back:
            replayed.backward(adjoint)
        with LiveBytes() as judging:
            self._judge(end)
        adjoint_bytes = state + sum(p.nbytes for p in self.teacher_params.values())
        rest = max(adjoint_bytes + going_back.peak, judging.peak)
        return ReplayBytes(state, graph, state + rest)  # the end of the run is kept, too

    def plain_steps(self, steps: int, passes: float) -> float:
        """CPU time of an estimate, in plain steps: gradients and updates."""
        end = self._replayed().after()
        adjoint = self._adjoint(end)

        def both() -> None:
            replayed = self._replayed()
            replayed.after()
            replayed.backward(adjoint)

        plain = _seconds(lambda: self.problem.step(self.start, self.teacher_params, self.step))
        once = _seconds(lambda: self._replayed().after())
        back = max(0.0, _seconds(both) - once)
        judged = _seconds(lambda: self._judge(end))
        # with those of ``memory``
        taken, gone_back = steps * passes + 1, steps + 1
        return (taken * once + gone_back * back + 2 * judged) / plain

    def _replayed(self) -> ReplayedStep:
        return replay_step(
            self.problem, self.product, self.start, self.teacher_params, self.step
        )

    def _judge(self, end: StudentState) -> None:
        if self.held_out is not None:
            self.problem.held_out_gradients(end, self.teacher_params, self.held_out)

    def _adjoint(self, end: StudentState) -> Adjoint:
        ones = {k: torch.ones_like(p) for k, p in end.params.items()}
        zeros = {k: torch.zeros_like(p) for k, p in self.teacher_params.items()}
        return Adjoint.at(end, ones, zeros)

    def _with_sizes(self) -> tuple[ReplayedStep, StudentState, int, int]:
        # the step and the state after it, bytes of a state, and of the step's graph with the
        # state that it starts from
        own = [self.start.params, self.start.buffers, *self.start.slots.values()]
        shared = {_storage(x)[0] for named in own for x in named.values()}
        shared |= {
            _storage(x)[0] for x in (*self.teacher_params.values(), self.step.batch.inputs)
        }
        saved: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            place, size = _storage(tensor)
            if place not in shared:
                saved[place] = size
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            replayed = self._replayed()
        for gradient in replayed.linearised.gradient.values():
            keep(gradient)
        after = replayed.after()
        kept = [after.params, after.buffers, *after.slots.values()]
        fresh = dict(_storage(x) for named in kept for x in named.values())
        state = sum(size for place, size in fresh.items() if place not in shared)
        return replayed, after, state, sum(saved.values()) + state


def _seconds(once: Callable[[], object]) -> float:
    found = []
    for _ in range(TIMES):
        started = time.process_time()
        once()
        found.append(time.process_time() - started)
    return min(found)


def _storage(tensor: Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()

"""The check that a student's steps can be recomputed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.differentiable import compiled_parts
from tutelage.functional.module_state import ModuleState, on_state, state_of
from tutelage.functional.student import StudentView
from tutelage.functional.trees import cloned
from tutelage.types import Observation, PreparedBatch, Step, StudentState


class InitialState(NamedTuple):
    """Copies of a student, and of its objective's state, before its first step."""

    state: StudentState
    attributes: ModuleState
    """those of its modules that are no parameters or buffers"""
    objective: ModuleState | None
    """None where it is no module"""
    numpy_state: tuple[object, ...]
    """of NumPy's global generator"""

    @classmethod
    def of(cls, student: StudentView, objective: object) -> "InitialState":
        """Copy the student and the objective's state."""
        params, buffers, _ = student.state()
        state = StudentState(cloned(params), cloned(buffers), {})
        own = state_of(objective) if isinstance(objective, nn.Module) else None
        return cls(state, state_of(student.module), own, _numpy_state())


def require_no_max_norm(student: nn.Module) -> None:
    """Raise for embeddings that overwrite their weight when called."""
    for name, part in student.named_modules():
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            raise UnsupportedStudentError(
                f"The student's module '{name}' has max_norm={part.max_norm}, by which its "
                "forward pass writes to its weight, so that a step cannot be recomputed. "
                "Leave max_norm away, or shorten the rows after optimizer.step()."
            )


def require_reproducible(
    problem: BilevelProblem,
    start: InitialState,
    prepared: PreparedBatch,
    step: Step,
    observation: Observation,
) -> None:
    """Raise if a step does not give the same numbers when recomputed."""
    _require_same_parameters(problem, start.state)
    _require_no_draws(start.numpy_state)
    with torch.no_grad():
        now, _ = problem.observe(start.state, prepared, step)
        with on_state(problem.student.module, start.attributes), _objective_on(problem, start):
            then, _ = problem.observe(start.state, prepared, step)
    name = type(problem.student.module).__name__
    if isinstance(problem.objective, nn.Module):
        name += f", or the objective {type(problem.objective).__name__},"
    if off := _largest_difference(now.losses, then.losses):
        raise UnsupportedStudentError(
            f"{name} does not give the same losses for the same parameters, buffers, rows and "
            f"seed: they differ by up to {off:.3g}, so that a step cannot be recomputed. Keep "
            "what its forward pass (or the objective) counts in buffers (register_buffer), and "
            "draw random numbers from torch's own generator."
        )
    if compiled_parts(problem.student.module) and (
        off := _largest_difference(now.losses, observation.losses)
    ):
        raise UnsupportedStudentError(
            f"The compiled {name} does not give the numbers of its original code for the same "
            f"seed: its losses differ by up to {off:.3g}. If it has dropout, set "
            "torch._inductor.config.fallback_random = True before the first step; else train "
            "it without torch.compile."
        )


@contextmanager
def _objective_on(problem: BilevelProblem, start: InitialState) -> Iterator[None]:
    own, state = problem.objective, start.objective
    if isinstance(own, nn.Module) and state is not None:
        with on_state(own, state):
            yield
    else:
        yield


def _largest_difference(losses: Tensor, others: Tensor) -> float:
    # by how much they differ; 0 within rounding
    others, rounding = others.detach(), torch.finfo(losses.dtype).eps ** 0.5
    if torch.allclose(losses, others, rtol=rounding, atol=rounding, equal_nan=True):
        return 0.0
    return float((losses - others).abs().max())


def _require_same_parameters(problem: BilevelProblem, before: StudentState) -> None:
    params = problem.student.state().params
    moved = [name for name, p in params.items() if _differ(p, before.params[name])]
    if moved:
        raise UnsupportedStudentError(
            f"{type(problem.student.module).__name__} writes to its parameters "
            f"({', '.join(moved)}) in its forward pass, so that a step cannot be recomputed. "
            "Write to them after optimizer.step(), or use torch.nn.utils.parametrize."
        )


def _differ(a: Tensor, b: Tensor) -> bool:
    return bool(((a != b) & ~(a.isnan() & b.isnan())).any())


def _require_no_draws(before: tuple[object, ...]) -> None:
    if _numpy_state() != before:  # checkers of types draw from Python's
        raise UnsupportedStudentError(
            "The student, its teacher or the objective draws from NumPy's generator, which no "
            "seed of a step governs, so that a step cannot be recomputed. Draw from torch's "
            "own generator."
        )


def _numpy_state() -> tuple[object, ...]:
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 - others draw from it
    return name, np.asarray(keys).tobytes(), tuple(rest)

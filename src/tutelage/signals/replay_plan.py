"""How many states and graphs ``Replayed`` keeps."""

import os
import re
from functools import cache
from math import ceil, sqrt
from typing import NamedTuple

import torch

from tutelage.errors import UsageError
from tutelage.signals.replay_costs import ReplayBytes

UNITS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


class ReplayPlan(NamedTuple):
    """What is kept of a run of T steps, and how often a step is computed."""

    arity: int
    """states kept at every level of the tree"""
    width: int
    """steps whose graphs are kept"""
    passes: float
    """gradients computed for each step, 1 where none is computed again"""
    states: int
    """kept at the same time, the graphs' own left out"""
    kept_bytes: int | None = None
    """of states and graphs at the same time; None where they were not measured"""
    peak_bytes: int | None = None
    """of these and of what else is alive at the same time: gradients, and graphs of one step
    and of the held-out loss; None where they were not measured"""
    plain_steps: float | None = None
    """CPU time of the estimate, in plain steps of the student (a gradient and an update), by
    that of the first step; None where it was not measured"""


def sqrt_plan(steps: int) -> ReplayPlan:
    """About 2 sqrt(T) states and the graphs of sqrt(T) / 2 steps."""
    width = ceil(sqrt(steps) / 2)
    return _plan(steps, ceil(steps / width), width)


def tree_plan(steps: int, arity: int) -> ReplayPlan:
    """``arity`` states at every level of a tree, and one graph."""
    return _plan(steps, arity, 1)


def plan_within(budget: int, steps: int, memory: ReplayBytes) -> ReplayPlan:
    """The plan with the fewest passes whose memory fits into a budget in bytes.

    If no plan fits it is a ``UsageError`` with the least that one needs.
    """
    plans = []
    for width in _widths(steps):
        for arity in range(2, max(2, ceil(steps / width)) + 1):
            plan = _plan(steps, arity, width)
            kept = plan.states * memory.state + plan.width * memory.graph
            plans.append(plan._replace(kept_bytes=kept, peak_bytes=kept + memory.rest))
    fitting = [plan for plan in plans if _peak(plan) <= budget]
    if not fitting:
        least = min(map(_peak, plans))
        raise UsageError(
            f"budget={budget / 1e6:.3g} MB is too little for {steps} steps of this student: "
            f"{ceil(least / 1e4) / 100:.2f} MB are needed at least. Give more, or fewer steps."
        )
    return min(fitting, key=lambda plan: (plan.passes, _peak(plan)))


def _peak(plan: ReplayPlan) -> int:
    assert plan.peak_bytes is not None
    return plan.peak_bytes


def _widths(steps: int) -> list[int]:
    # every number up to 32, then in steps of about 6%
    found = [1]
    while found[-1] < steps:
        found.append(min(steps, max(found[-1] + 1, int(found[-1] * 1.06))))
    return found


def _plan(steps: int, arity: int, width: int) -> ReplayPlan:
    computed, states = _first(steps, arity, width)
    return ReplayPlan(arity, width, computed / steps, states)


def parts_of(steps: int, arity: int, width: int) -> list[int]:
    """Lengths of at most ``arity`` parts of a segment, multiples of the width but the last."""
    stride = width * ceil(steps / (arity * width))
    return [min(stride, steps - place) for place in range(0, steps, stride)]


def _first(steps: int, arity: int, width: int) -> tuple[int, int]:
    # gradients and states of a run whose last segment is not computed again
    if steps <= width:
        return steps, 1
    *others, last = parts_of(steps, arity, width)
    computed, states = _first(last, arity, width)
    again = [_again(part, arity, width) for part in others]
    states = max(states + len(others), *(n + place for place, (_, n) in enumerate(again)))
    return sum(others) + computed + sum(n for n, _ in again), states


@cache
def _again(steps: int, arity: int, width: int) -> tuple[int, int]:
    # the same of a segment that starts from a kept state
    if steps <= width:
        return steps, 1
    parts = parts_of(steps, arity, width)
    found = [_again(part, arity, width) for part in parts]
    states = max(n + place for place, (_, n) in enumerate(found))
    return sum(parts[:-1]) + sum(n for n, _ in found), states


def bytes_of(budget: str, device: torch.device) -> int:
    """A budget in bytes: a number with a unit, or a percentage of what is free."""
    if not isinstance(budget, str):
        raise UsageError(f"budget is {budget!r}; allowed: text, such as '500 MB' or '25%'.")
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z%]+)\s*", budget)
    unit = "" if found is None else found[2].lower()
    try:
        number = float(found[1]) if found is not None else 0.0
    except ValueError:
        number = 0.0
    if number > 0 and unit in UNITS:
        return int(number * UNITS[unit])
    if 0 < number <= 100 and unit == "%":
        return int(number / 100 * _free(device))
    raise UsageError(
        "budget is a number with a unit (kB, MB, GB, KiB, MiB, GiB) "
        f"or a percentage of free memory, such as '500 MB' or '25%'; got '{budget}'."
    )


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

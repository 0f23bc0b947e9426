"""One situation: by the engine, in plain torch, and by differences."""

import warnings

import torch
from torch import Tensor

from tests.fuzz.engine.differences import (
    SIZE,
    Course,
    Differences,
    Looked,
    along,
    drawn,
    real_step,
)
from tests.fuzz.engine.made import DOUBLE, HALF, Parts
from tests.fuzz.engine.notes import Phi
from tests.fuzz.engine.optimisers import OPTIMISERS
from tests.fuzz.engine.plain import Loop
from tests.fuzz.engine.reasons import REASONS
from tests.fuzz.engine.rewards import rewarded
from tests.fuzz.engine.signals import CLOSE
from tests.fuzz.engine.situation import Situation
from tests.fuzz.engine.taught import Taught, phi_of, state_of, taught
from tests.fuzz.outcomes import Outcome, refusal

GRADIENTS = ("double", "single", "teacher single", "student single")
CLOSER = SIZE / 100
"""of differences beside a kink"""


def outcome(s: Situation) -> Outcome:
    """What becomes of a situation."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        return _outcome(s)


def _outcome(s: Situation) -> Outcome:
    parts = Parts(s)
    if (
        parts.objective.metric
        and parts.objective.refused
        and parts.kind.evaluate_on != "held-out"
    ):
        return Outcome("untrainable")  # nothing is judged by the metric
    must_refuse = (
        parts.objective.refused
        or parts.data.broken is not None
        or OPTIMISERS[s.optimiser].refused
    )
    if parts.data.broken is None and not _is_reward(parts) and not _trains(parts):
        return Outcome("untrainable")
    try:
        found = rewarded(parts) if _is_reward(parts) and not must_refuse else taught(parts)
    except Exception as error:  # noqa: BLE001 - told by its kind
        found = refusal(error, s.spec, () if must_refuse else REASONS)
        if must_refuse and found.about == "refused without a known reason":
            return Outcome("refused", "as it has to be", found.detail)
        return found
    if must_refuse:
        return Outcome("failed", "accepted what has to be refused")
    if isinstance(found, Outcome):
        return found
    return _compared(parts, found)


def _is_reward(parts: Parts) -> bool:
    return parts.kind.oracle == "reward"


def _trains(parts: Parts) -> bool:
    loop = Loop(parts, parts.types)
    phi = phi_of(loop.made)
    course = Course([phi] * parts.situation.steps, [phi] * parts.situation.steps)
    try:
        for number in range(parts.situation.steps):
            loop.take(number, real_step(parts, course, number))
        loop.judge(phi, parts.situation.steps)
    except Exception:  # noqa: BLE001 - whatever plain torch refuses
        return False
    return True


def _compared(parts: Parts, found: Taught) -> Outcome:
    said = _student(parts, found)
    if said is not None:
        return said
    if parts.situation.precision not in GRADIENTS:
        return Outcome("compared", "student")
    return _estimates(parts, found)


def _student(parts: Parts, found: Taught) -> Outcome | None:
    """The real student and what was recorded of it, against plain torch."""
    loop = Loop(parts, parts.types)
    for number in range(parts.situation.steps):
        loop.take(number, real_step(parts, found.course, number))
    close = 1e-8 if parts.types[0] == DOUBLE else 1e-4
    if parts.types[0] == HALF or parts.situation.precision == "autocast":
        close = 5e-2
    if "single" in parts.situation.precision:
        close = 1e-4
    off = _off(found.losses, loop.losses[: len(found.losses)])
    if off > close:
        return Outcome("failed", "recorded losses", f"off by {off:.1e}")
    state = state_of(loop.made)
    for name, tensor in found.student.items():
        off = _off(tensor.double().flatten(), state[name].double().flatten())
        if off > close:
            return Outcome("failed", "real training", f"{name} is off by {off:.1e}")
    return None


def _off(a, b) -> float:
    a, b = torch.as_tensor(a).double(), torch.as_tensor(b).double()
    if a.shape != b.shape:
        return float("inf")
    apart = (a - b).abs() / (1 + b.abs())
    same = (a == b) | ~(a.isfinite() | b.isfinite())  # one formula overflows to NaN, one to inf
    apart = torch.where(same, 0.0, apart).nan_to_num(nan=torch.inf)
    return float(apart.max()) if len(apart) else 0.0


def _estimates(parts: Parts, found: Taught) -> Outcome:
    s, run = parts.situation, Differences(parts, found.course)
    by_step = {look.steps[-1]: look for look in found.looks}
    ends = range(s.every * s.aggregate - 1, s.every * s.looks, s.every * s.aggregate)
    missing = 0
    for end in [s.steps - 1] if s.mode == "whole run" else ends:
        steps = tuple(range(end - (s.aggregate - 1) * s.every, end + 1, s.every))
        directions = drawn(found.before[end], s.seed)
        want, doubt = run.of(steps, directions)
        finite = bool(want.isfinite().all())
        if not finite and end in by_step:
            return Outcome("failed", "took a step that is not finite", f"at step {end}")
        # in single precision training may overflow where that of the oracle does not
        overflows = not torch.tensor([*found.losses[: end + 1], *doubt]).isfinite().all()
        if not finite or (end not in by_step and (overflows or run.overflows(steps))):
            missing += 1
            continue
        if end not in by_step:
            return Outcome("failed", "skipped what is finite", f"at step {end}")
        said = _settled(parts, by_step[end], directions, run, (want, doubt))
        if said is not None:
            return said
    if missing != found.skipped:
        return Outcome("failed", "miscounted", f"{found.skipped} skipped, not {missing}")
    return Outcome("compared", "gradients")


def _settled(
    parts: Parts,
    look: Looked,
    directions: list[Phi],
    run: Differences,
    found: tuple[Tensor, Tensor],
) -> Outcome | None:
    said = _estimate(parts, look, directions, *found)
    if said is None or said.word != "unsettled":
        return said
    return _estimate(parts, look, directions, *run.of(look.steps, directions, CLOSER))


def _estimate(
    parts: Parts, look: Looked, directions: list[Phi], want: Tensor, doubt: Tensor
) -> Outcome | None:
    got = torch.tensor([along(look.grad, d) for d in directions], dtype=torch.float64)
    bound = parts.kind.bound
    single = parts.situation.precision != "double"
    if single:  # rounding enters differences up to what they accept
        bound = max(bound, CLOSE.bound if parts.kind.smooth else 3e-3)
    length = float(sum((g.double() ** 2).sum() for g in look.grad.values())) ** 0.5
    size = max(float(want.norm()), 0.1 * length)
    slack = bound * size + (1e-5 if single else 1e-8)
    off = float((got - want).norm())
    if off <= slack:
        return None
    if off <= 3 * float(doubt.double().norm()):
        return Outcome("unsettled", "differences of two sizes differ", f"{doubt.tolist()}")
    cosine = float(torch.cosine_similarity(got, want, 0))
    where = f"at step {look.steps[-1]}: {got.tolist()}, not {want.tolist()}"
    return Outcome(
        "failed", "hypergradient", f"off by {off / size:.1e} (cosine {cosine:.2f}), {where}"
    )

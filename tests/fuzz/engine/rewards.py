"""Rewards against enumeration: the mean estimate over all draws is the gradient."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD

from tests.fuzz.engine.differences import along, drawn, moved
from tests.fuzz.engine.made import Made, Parts
from tests.fuzz.engine.notes import Phi
from tests.fuzz.engine.plain import Loop
from tests.fuzz.engine.taught import Noting, phi_of
from tests.fuzz.outcomes import Outcome
from tutelage.signals import NextStepLoss
from tutelage.teachers import CombinedTeacher, KeepOrDrop, SplitSampler
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, as_prepared

RATE = 1e-6
ROWS, PAIR, SEEDS = 3, 2, 400
SIZES = (2, 1, 2)


def rewarded(parts: Parts) -> Outcome:
    """Whether the mean of the estimates is the gradient of the mean loss after a step."""
    made = _made(parts)
    phi, keeps = phi_of(made), isinstance(made.teacher, KeepOrDrop)
    actions = _kept(parts) if keeps else _sampled(parts)
    estimates, judged, chances = [], [], []
    directions = drawn(phi, parts.situation.seed)
    for batch, grad, weights in actions:
        estimates.append([along(grad, d) for d in directions])
        judged.append(_judged(parts, batch, weights))
        chances.append([
            [float(_chance(parts, moved(phi, d, e), batch, weights)) for e in (1e-4, 0, -1e-4)]
            for d in directions
        ])
    of = torch.tensor(chances, dtype=torch.float64)  # [action, direction, place]
    got = (of[:, :, 1] * torch.tensor(estimates, dtype=torch.float64)).sum(0)
    slopes = (of[:, :, 0] - of[:, :, 2]) / 2e-4
    loss = torch.tensor(judged, dtype=torch.float64)[:, None]
    rows = float(_labelled(parts) if keeps else PAIR)
    each = isinstance(parts.kind.build(1), NextStepLoss)
    want = (slopes * loss).sum(0) / (rows if each else RATE)
    if bool((of[:, :, 1].sum(0) - 1).abs().max() > 1e-9):
        return Outcome("unsettled", "not all actions were drawn")
    off = float((got - want).norm() / want.norm().clamp(min=1e-6))
    if off < 1e-2:
        return Outcome("compared", "rewards")
    return Outcome("failed", "reward", f"off by {off:.1e}: {got.tolist()}, not {want.tolist()}")


def _made(parts: Parts) -> Made:
    made = parts.make()
    made.optimizer = SGD(made.student.parameters(), lr=RATE)
    return made


def _estimate(parts: Parts, batch: Batch, seed: int) -> tuple[Phi, Tensor]:
    made = _made(parts)
    learner = Noting(made)
    tutor = Tutor(
        made.student,
        made.optimizer,
        made.teacher,
        learner,
        signal=parts.kind.build(1),
        objective=parts.objective.given,
        metric=parts.objective.metric,
        seed=seed,
    )
    record = tutor.step(batch, Batch(*parts.source.judging()))
    return learner.taken[0], record.weights


def _labelled(parts: Parts) -> int:
    # rows that count, and so have a choice
    counts = parts.objective.counts
    return ROWS if counts is None else int(counts(parts.source.train.targets[:ROWS]).sum())


def _kept(parts: Parts) -> Iterator[tuple[Batch, Phi, Tensor]]:
    # by seeds, until every choice has been drawn
    rows = parts.source.train
    batch = Batch(rows.inputs[:ROWS], rows.targets[:ROWS], rows.ids[:ROWS])
    known, seen = _labelled(parts), set()
    for seed in range(SEEDS):
        grad, weights = _estimate(parts, batch, seed)
        kept = tuple(bool(w) for w in weights)
        if kept not in seen:
            seen.add(kept)
            yield batch, grad, weights
        if len(seen) == 2**known:
            return


def _sampled(parts: Parts) -> Iterator[tuple[Batch, Phi, Tensor]]:
    rows = parts.source.train
    for pair in itertools.product(range(sum(SIZES)), repeat=PAIR):
        at = torch.tensor(pair)
        batch = Batch(rows.inputs[at], rows.targets[at], rows.ids[at])
        yield batch, *_estimate(parts, batch, 0)


def _chance(parts: Parts, phi: Phi, batch: Batch, weights: Tensor) -> Tensor:
    # of a choice, or of a batch
    loop = Loop(parts)
    teacher = loop.made.teacher
    loop.set(phi)
    with torch.no_grad():
        if isinstance(teacher, KeepOrDrop):
            seen = loop.seen(batch)
            keeps: Any = teacher.keeps
            p = keeps.weigh(as_prepared(batch), seen).clamp(1e-6, 1 - 1e-6)
            counts = parts.objective.counts
            drawn_of = p > 0 if counts is None else counts(batch.targets)
            return torch.where(weights > 0, p, 1 - p)[drawn_of].prod()
        sampler = teacher.prepares if isinstance(teacher, CombinedTeacher) else teacher
        assert isinstance(sampler, SplitSampler)
        q = sampler.logits.softmax(0)
        q = q if sampler.policy == "softmax" else (1 - q) / (len(q) - 1)
        part = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
        return (q[part] / torch.tensor(SIZES)[part])[batch.ids].prod()


def _judged(parts: Parts, batch: Batch, weights: Tensor) -> float:
    # the held-out loss after a plain step under what was drawn
    loop = Loop(parts)
    loop.made.optimizer = SGD(loop.made.student.parameters(), lr=RATE)
    loop.descend(batch, weights)
    return loop.judge(phi_of(loop.made), 1)

"""Lessons and observations: drawn and rounded again as they were, detached, cut and joined."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from tutelage.precision import autocast_to
from tutelage.randomness import seeded
from tutelage.types import Batch, Lesson, Observation

Rows = TypeVar("Rows", bound=Batch | Lesson)


def clone_rows(rows: Rows) -> Rows:
    """The same rows in memory of their own, which no later write to the others reaches."""
    own = {name: x.clone() for name, x in rows._asdict().items() if isinstance(x, Tensor)}
    return rows._replace(**own)


def write_back(copies: Lesson, rows: Lesson) -> None:
    """Write to rows what was written to copies of them."""
    for copy, row in zip(copies, rows, strict=True):
        if isinstance(copy, Tensor) and isinstance(row, Tensor) and copy._version > 0:
            row.copy_(copy)


@contextmanager
def replay_context(rows: Batch | Lesson, seed: int) -> Iterator[None]:
    """Draw and round inside as where these rows were first looked at."""
    device = rows.inputs.device
    with seeded(seed, device), autocast_to(rows.autocast, device):
        yield


def detach(observation: Observation) -> Observation:
    """An observation without its graph."""
    features = {name: feature.detach() for name, feature in observation.features.items()}
    losses, logits = observation.losses.detach(), observation.logits.detach()
    return observation._replace(losses=losses, logits=logits, features=features)


def concatenate_observations(parts: list[Observation]) -> Observation:
    """What a student's passes over parts of a lesson revealed of all of it."""
    if len(parts) == 1:
        return parts[0]
    return parts[0]._replace(
        losses=torch.cat([observation.losses for observation in parts]),
        logits=torch.cat([observation.logits for observation in parts]),
        features={
            name: torch.cat([observation.features[name] for observation in parts])
            for name in parts[0].features
        },
    )


def split_lesson(lesson: Lesson, most: int) -> list[Lesson]:
    """A lesson's rows in order, a few at a time."""
    if len(lesson.ids) <= most:
        return [lesson]
    rows = [x for x in (*lesson[:4], lesson.aux) if x is not None]
    parts = zip(*(x.split(most) for x in rows), strict=True)
    return [
        Lesson(*own[:4], aux=own[4] if len(own) > 4 else None, autocast=lesson.autocast)
        for own in parts
    ]

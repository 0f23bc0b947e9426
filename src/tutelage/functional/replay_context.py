"""Random numbers and precision of a step, and helpers for batches and observations."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from tutelage.precision import autocast_to
from tutelage.randomness import seeded
from tutelage.types import Batch, Observation, PreparedBatch

Rows = TypeVar("Rows", bound=Batch | PreparedBatch)


def clone_rows(rows: Rows) -> Rows:
    """A batch with cloned tensors."""
    own = {name: x.clone() for name, x in rows._asdict().items() if isinstance(x, Tensor)}
    return rows._replace(**own)


def write_back(copies: PreparedBatch, rows: PreparedBatch) -> None:
    """Copy in-place changes of clones back to the original rows."""
    for copy, row in zip(copies, rows, strict=True):
        if isinstance(copy, Tensor) and isinstance(row, Tensor) and copy._version > 0:
            row.copy_(copy)


@contextmanager
def replay_context(rows: Batch | PreparedBatch, seed: int) -> Iterator[None]:
    """Use the random numbers of ``seed`` and the autocast type of the rows inside."""
    device = rows.inputs.device
    with seeded(seed, device), autocast_to(rows.autocast, device):
        yield


def detach(observation: Observation) -> Observation:
    """An observation detached from its graph."""
    features = {name: feature.detach() for name, feature in observation.features.items()}
    losses, logits = observation.losses.detach(), observation.logits.detach()
    return observation._replace(losses=losses, logits=logits, features=features)


def concatenate_observations(parts: list[Observation]) -> Observation:
    """Concatenate the observations of micro-batches."""
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


def split_rows(prepared: PreparedBatch, most: int) -> list[PreparedBatch]:
    """Split a prepared batch into consecutive rows, at most ``most`` at a time."""
    if len(prepared.ids) <= most:
        return [prepared]
    rows = [x for x in (*prepared[:4], prepared.aux) if x is not None]
    parts = zip(*(x.split(most) for x in rows), strict=True)
    return [
        PreparedBatch(
            *own[:4], aux=own[4] if len(own) > 4 else None, autocast=prepared.autocast
        )
        for own in parts
    ]

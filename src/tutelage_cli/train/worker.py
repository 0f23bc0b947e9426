"""Trains one student in a worker process; imports only what training needs."""

import multiprocessing
import os
import signal
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.runner.ray_tasks import require_run
from tutelage_cli.runner.workers import ENDING
from tutelage_cli.train.job import Job
from tutelage_cli.train.material import Source, seed_material
from tutelage_cli.train.student_training import train_student
from tutelage_cli.train.students import Data

PARTS = ("train", "test")
KINDS = (ImageSet, TextSet, FeatureSet)
STOP = "stop"
"""a file of this name in the run's folder stops all its students"""


def train_one(job: Job, plain: dict[str, Any]) -> bool:
    """Train a student; False if it was stopped."""
    # one thread each: small networks on several threads only get in each other's way
    torch.set_num_threads(1)
    parent = None
    if multiprocessing.parent_process() is not None:
        parent = os.getppid()
        for number in ENDING:  # the run's process handles them
            signal.signal(number, signal.SIG_IGN)

    def stopped() -> bool:
        orphaned = parent is not None and os.getppid() != parent
        return orphaned or (job.run / STOP).exists()

    if stopped():
        return False
    material = seed_material(_from_arrays(plain), job.settings, job.seed)
    return train_student(job, material, stopped)


def train_on_node(job: Job, plain: dict[str, Any]) -> bool:
    """Train a student on a node of a cluster; False if it was stopped."""
    require_run(job.run)
    return train_one(job, plain)


def as_arrays(source: Source) -> dict[str, Any]:
    """The data as arrays, which each worker copies.

    ``MappedRows`` stay what they are, and are pickled as names of files and row numbers.
    """
    plain: dict[str, Any] = {part: _plain(getattr(source.splits, part)) for part in PARTS}
    plain["given"] = None if source.given is None else source.given.numpy()
    plain["contents"] = source.contents
    plain["trusted"] = None if source.trusted is None else _plain(source.trusted)
    return plain


def _from_arrays(plain: dict[str, Any]) -> Source:
    train, test = (_part(*plain[part]) for part in PARTS)
    given = None if plain["given"] is None else _tensor(plain["given"])
    trusted: Any = None if plain["trusted"] is None else _part(*plain["trusted"])
    return Source(Splits(train, test), given, trusted, plain["contents"])


def _plain(of: Data) -> tuple[Any, dict[str, Any]]:
    named = {field.name: getattr(of, field.name) for field in fields(of)}
    return type(of), {name: _plain_value(value) for name, value in named.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    return _plain(value) if isinstance(value, ImageSet | TextSet) else value


def _part(kind: Any, named: dict[str, Any]) -> Data:
    return kind(**{name: _value(value) for name, value in named.items()})


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _tensor(value)
    nested = isinstance(value, tuple) and value and value[0] in KINDS
    return _part(*value) if nested else value


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.copy())  # joblib maps it read-only

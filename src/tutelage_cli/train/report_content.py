"""The content of a finished study's report, read from its folder."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from tutelage_cli.config.flags import flags_of
from tutelage_cli.config.settings_files import to_plain
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.report import (
    ClassWeights,
    Example,
    Examples,
    LeastTrusted,
    RunContent,
    formats,
)
from tutelage_cli.report.distrust import least_trusted
from tutelage_cli.runner.run_folder import run_facts
from tutelage_cli.train.job import Job, jobs_of
from tutelage_cli.train.job_files import read_example_table, read_weight_history
from tutelage_cli.train.material import Material
from tutelage_cli.train.policies import learned_policies
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import Data, raw_examples
from tutelage_cli.train.summary import curve_of, data_line, report_arms

MAX_PER_ARM, MAX_TOTAL = 24, 96
"""examples of lowest weight shown: of an arm, and of a report"""
MAX_CHARACTERS = 500
"""of a text"""


def run_content(
    run: Path, settings: TrainSettings, summary: dict[str, Any], material: Material
) -> RunContent:
    """The content of the report."""
    taught = settings.arms[1:]
    size = len(material.train), len(material.train.classes)
    tables = {arm: read_example_table(Job(run, arm, 0, settings), *size) for arm in taught}
    tables = {arm: table for arm, table in tables.items() if (table["weight"] != 1).any()}
    most = min(MAX_PER_ARM, MAX_TOTAL // max(len(tables), 1))
    raw = raw_examples(material.train)
    return RunContent(
        title=f"Taught and untaught students on {material.train.name}",
        command=command_line(settings),
        data=data_line(summary["data"]),
        classes=material.train.classes,
        arms=report_arms(summary),
        curves=tuple(
            curve_of(job) for arm in settings.arms for job in jobs_of(run, arm, settings)
        ),
        examples=tuple(_examples(arm, table) for arm, table in tables.items()),
        least_trusted=tuple(_shown(arm, table, raw, most) for arm, table in tables.items()),
        verdict=tuple(summary["verdict"]),
        settings={name: _format_value(value) for name, value in to_plain(settings).items()},
        environment={name: fact for name, fact in run_facts(run).items() if fact},
        by_class=tuple(
            weights
            for arm in tables
            for weights in _by_class(jobs_of(run, arm, settings), size[1])
        ),
        augmentations=tuple(
            policy for arm in taught for policy in learned_policies(jobs_of(run, arm, settings))
        ),
    )


def _by_class(jobs: Sequence[Job], classes: int) -> Iterator[ClassWeights]:
    """The mean weight of each class over the run, averaged over seeds."""
    means: list[np.ndarray] = []
    epochs: list[int] = []
    for job in jobs:
        table = read_example_table(job, None, classes)
        history = read_weight_history(job, table["id"])
        if history is None:
            return
        epochs, weights = history
        means.append(class_means(weights, table["given"], classes))
    known = np.isfinite(means)
    sums = np.where(known, means, 0).sum(0)
    mean = np.where(known.any(0), sums / np.maximum(known.sum(0), 1), np.nan)
    yield ClassWeights(jobs[0].arm, tuple(epochs), mean)


def class_means(
    weights: Float[np.ndarray, "N T"], labels: Integer[np.ndarray, "N"], classes: int
) -> Float[np.ndarray, "T C"]:
    """The mean weight of the examples that carry each label."""
    rows = np.bincount(labels, minlength=classes)
    sums = np.stack([np.bincount(labels, column, classes) for column in weights.T])
    return np.where(rows > 0, sums / np.maximum(rows, 1), np.nan)


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_format_value, value)) or formats.DASH
    if isinstance(value, float):
        return f"{value:.4g}"
    return formats.DASH if value is None else str(value)


def command_line(settings: TrainSettings) -> str:
    """The command that repeats a run."""
    data = f"./{settings.data}" if settings.data.startswith("-") else settings.data
    return shlex.join(["tutelage", "train", data, *flags_of(settings)])


def _examples(arm: str, table: dict[str, np.ndarray]) -> Examples:
    return Examples(
        arm=arm,
        ids=table["id"],
        given=table["given"],
        true=table.get("true"),
        predicted=table["predicted"],
        losses=table["loss"],
        weights=table["weight"],
    )


def _shown(arm: str, table: dict[str, np.ndarray], train: Data, most: int) -> LeastTrusted:
    # features have nothing to show
    items, names = [], train.classes
    texts = train.shown() if isinstance(train, TextSet) else ()
    for row in least_trusted(table["weight"], table["loss"])[:most].tolist():
        if isinstance(train, ImageSet):
            pixels = train.images[row].permute(1, 2, 0).numpy()
            shown = pixels[..., 0] if pixels.shape[2] == 1 else pixels
        elif texts:
            cut = len(texts[row]) > MAX_CHARACTERS
            shown = f"{texts[row][:MAX_CHARACTERS]} …" if cut else texts[row]
        else:
            break
        true = names[int(table["true"][row])] if "true" in table else None
        given, predicted = (names[int(table[column][row])] for column in ("given", "predicted"))
        number, weight, loss = (
            table[column][row].item() for column in ("id", "weight", "loss")
        )
        items.append(Example(shown, number, given, predicted, true, weight, loss))
    return LeastTrusted(arm, tuple(items))

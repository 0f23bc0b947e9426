"""Accuracy and time of students that are taught through all layers and through the last alone.

    python -m benchmarks.teaching_cost [--cases NAME ...] [--rounds 5] [--out FILE]

A case is a number of checked digits, of which a student is trained as ``tutelage train
--controls none`` does, untaught and by ``margin-loss`` with both signals: embedded digits with
``flip2:0.4``, by seeds 0, 1, ..., one a round. The students of a round take their epochs in
turn, so that what else the machine does falls on all of them; time is CPU time of this process
on one thread, divided by that of the untaught student. ``benchmarks.teaching_cost_figure``
draws them.
"""

import time
from collections import defaultdict
from dataclasses import replace

import torch

from benchmarks.command import Benchmark, Row, main, size
from tutelage.training.tutor import Tutor
from tutelage_cli.data.sources import load
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.evaluation import accuracy
from tutelage_cli.train.job import learning_rate
from tutelage_cli.train.material import Source, Streams, open_streams, seed_material
from tutelage_cli.train.settings import TrainSettings

LIMIT, EPOCHS = size(5000, 100), size(12, 1)
UNTAUGHT, ALL = "untaught", "Reversible(2), every 5"
LAST = "Lookahead(layers='last'), every 2"
ARMS = {
    UNTAUGHT: ("untaught", None),
    ALL: ("margin-loss", "all"),
    LAST: ("margin-loss", "last"),
}
"""arms of ``tutelage train`` with the layers of their signal, by what they are called here"""
CASES = {f"{checked} checked": checked for checked in (20, 100, 500)}


def trained_epoch(tutor: Tutor, streams: Streams, epoch: int) -> float:
    """CPU seconds of an epoch.

    Args:
        tutor: Who trains.
        streams: Where the batches come from.
        epoch: Its number.

    Returns:
        Seconds.
    """
    tutor.student.train()
    started = time.process_time()
    for batch in streams.train.epoch(epoch):
        tutor.step(batch, streams.held_out.draw(tutor.steps) if tutor.wants_held_out else None)
    return time.process_time() - started


def of_seed(case: str, seed: int) -> list[Row]:
    """Train an untaught and the taught students of the same seed.

    Args:
        case: How many digits are checked.
        seed: Of the digits, the wrong labels, the students, the teachers and the batches.

    Returns:
        A row each.
    """
    checked = size(CASES[case], 10)
    settings = TrainSettings(held_out=checked, limit=LIMIT, epochs=EPOCHS)
    material = seed_material(Source(load("mnist5k"), None), settings, seed)
    streams = open_streams(material, settings, seed, torch.device("cpu"))
    steps = len(streams.train) * EPOCHS
    tutors = {
        name: build_tutor(arm, seed, material.train, replace(settings, layers=layers), steps)
        for name, (arm, layers) in ARMS.items()
    }
    seconds: defaultdict[str, float] = defaultdict(float)
    for epoch in range(EPOCHS):
        for name, tutor in tutors.items():
            for group in tutor.optimizer.param_groups:
                group["lr"] = learning_rate(settings, epoch)
            seconds[name] += trained_epoch(tutor, streams, epoch)
    return [
        {
            "case": case,
            "variant": name,
            "seed": seed,
            "accuracy": accuracy(tutor, streams.test),
            "time": seconds[name] / seconds[UNTAUGHT],
            "skipped": tutor.skipped_teacher_steps,
        }
        for name, tutor in tutors.items()
    ]


def measured(case: str, rounds: int) -> list[Row]:
    """Train students of every seed."""
    return [row for seed in range(rounds) for row in of_seed(case, seed)]


def line(row: Row) -> str:
    """A student with its accuracy and time."""
    return f"seed {row['seed']}  {row['variant']:35s} {row['accuracy']:.3f}  {row['time']:.2f}"


BENCHMARK = Benchmark(
    cases=tuple(CASES),
    measure=measured,
    line=line,
    rounds=5,
    names=("case", "variant", "seed"),
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

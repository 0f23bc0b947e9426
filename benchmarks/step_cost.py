"""What a taught step costs against an untaught one, as ratios within one process.

    python -m benchmarks.step_cost [--cases NAME ...] [--rounds 15] [--out FILE]

Each round takes the same batches through an untaught and a taught student in turn, in changing
order, so that what else the machine does falls on both. Time is CPU time of this process with
one torch thread; a round is long enough to hold whole teacher periods. Printed is the median
ratio of the rounds with its quartiles.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import NamedTuple

import torch

from benchmarks.command import Benchmark, Row, main, size
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.data.noise import corrupt, transition_matrix
from tutelage_cli.data.sources import load
from tutelage_cli.data.splits import balanced_rows
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.material import Material, open_streams
from tutelage_cli.train.settings import TrainSettings


class Taught(NamedTuple):
    """A student with its teacher, and how often the teacher learns."""

    student: str
    teacher: str
    every: int
    """student steps between two teacher steps"""
    unroll: int
    """student steps that a hypergradient is taken through"""

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.student}, {self.teacher}, every {self.every}, {self.unroll} steps"


CASES = {
    case.name: case
    for case in (
        Taught("cnn", "margin-loss", 20, 2),
        Taught("cnn", "margin-loss", 5, 2),
        Taught("cnn", "internal-state", 20, 2),
        Taught("cnn", "internal-state", 5, 2),
        Taught("cnn", "loss", 1, 1),
        Taught("resnet20", "margin-loss", 20, 2),
        Taught("resnet20", "margin-loss", 5, 2),
    )
}
ROWS, HELD_OUT, THINNED = size(100, 4), size(500, 10), size(1, 50)


def tutors(case: Taught) -> tuple[Tutor, Tutor, list[Batch], list[Batch]]:
    """An untaught and a taught student of the same seed, training and held-out batches."""
    settings = TrainSettings(
        student=case.student,
        teacher=(case.teacher,),
        batch_size=ROWS,
    )
    if case.every > 1:  # the teacher by loss learns at every step, through one
        settings = replace(settings, teacher_every=case.every, unroll_steps=case.unroll)
    splits = load("mnist5k")
    train = splits.train
    held, rest = balanced_rows(train.labels, HELD_OUT, len(train.classes), seed=0)
    right = train.rows(rest[::THINNED])  # classes lie one after the other
    matrix = transition_matrix("flip2", 0.4, len(train.classes))
    shown = right.with_labels(corrupt(right.labels, matrix, seed=0))
    material = Material(shown, right.labels, train.rows(held), splits.test)
    streams = open_streams(material, settings, 0, torch.device("cpu"))
    batches = [b for b in streams.train.epoch(0) if len(b.ids) == ROWS]
    pair = [build_tutor(arm, 0, shown, settings, 1000) for arm in ("untaught", case.teacher)]
    return pair[0], pair[1], batches, [streams.held_out.draw(n) for n in range(20)]


def spent(tutor: Tutor, batches: Sequence[Batch], held_out: Sequence[Batch]) -> float:
    """CPU seconds of one pass over the batches.

    Args:
        tutor: Who trains.
        batches: Training batches.
        held_out: Batches for the teacher steps, in turn.

    Returns:
        Seconds.
    """
    started = time.process_time()
    for place, batch in enumerate(batches):
        judge = held_out[place % len(held_out)] if tutor.wants_held_out else None
        tutor.step(batch, judge)
    return time.process_time() - started


def measured(name: str, rounds: int) -> list[Row]:
    """Cost of taught over untaught, as the median of rounds; one more round is not counted."""
    case = CASES[name]
    plain, taught, batches, held_out = tutors(case)
    # small: three rounds hold one teacher step, or two
    steps = size(20 if case.student == "cnn" else case.every, case.every // 3 + 1)
    drawn, found = cycle(batches), []
    for number in range(rounds + 1):
        order = (plain, taught) if number % 2 else (taught, plain)
        chosen = list(islice(drawn, steps))
        times = {tutor: spent(tutor, chosen, held_out) for tutor in order}
        found.append(times[taught] / times[plain])
    low, middle, high = statistics.quantiles(found[1:], n=4, method="inclusive")
    return [
        {"case": name, **case._asdict(), "time": middle, "quartiles": [low, high], "n": rounds}
    ]


def line(row: Row) -> str:
    """The time of a taught step in untaught ones."""
    low, high = row["quartiles"]
    return f"{row['time']:.2f} [{low:.2f}, {high:.2f}]   n={row['n']}"


BENCHMARK = Benchmark(tuple(CASES), measured, line, rounds=15, names=("case",))

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

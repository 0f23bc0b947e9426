"""What a taught step costs against an untaught one, as ratios within one process.

    python benchmarks/step_cost.py [--rounds 15]

Each round takes the same batches through an untaught and a taught student in turn, in changing
order, so that what else the machine does falls on both. Time is CPU time of this process with
one torch thread; a round is long enough to hold whole teacher periods. Printed is the median
ratio of the rounds with its quartiles.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from tutelage.storage.json_files import environment, write_json
from tutelage.training.tutor import Tutor
from tutelage.types import Batch
from tutelage_cli.data.noise import corrupt, transition_matrix
from tutelage_cli.data.sources import load
from tutelage_cli.data.splits import balanced_rows
from tutelage_cli.train.arms import build_tutor
from tutelage_cli.train.material import Material, open_streams
from tutelage_cli.train.settings import TrainSettings

CASES = (
    ("cnn", "mnist5k", "margin-loss", 20, 2),
    ("cnn", "mnist5k", "margin-loss", 5, 2),
    ("cnn", "mnist5k", "internal-state", 20, 2),
    ("cnn", "mnist5k", "internal-state", 5, 2),
    ("cnn", "mnist5k", "loss", 1, 1),
    ("resnet20", "mnist5k", "margin-loss", 20, 2),
    ("resnet20", "mnist5k", "margin-loss", 5, 2),
)


def tutors(
    student: str, data: str, teacher: str, every: int, back: int
) -> tuple[Tutor, Tutor, list[Batch], list[Batch]]:
    """An untaught and a taught student of the same seed, and batches for both.

    Args:
        student: The student's name.
        data: The data source.
        teacher: The teacher's name.
        every: Student steps between two teacher steps.
        back: Student steps looked back over.

    Returns:
        Both tutors; 40 training batches and as many held-out ones, of 100.
    """
    settings = TrainSettings(
        student=student, teacher=(teacher,), teacher_every=every, unroll_steps=back
    )
    splits = load(data)
    train = splits.train
    held, rest = balanced_rows(train.labels, 500, len(train.classes), seed=0)
    right = train.rows(rest)
    matrix = transition_matrix("flip2", 0.4, len(train.classes))
    shown = right.with_labels(corrupt(right.labels, matrix, seed=0))
    material = Material(shown, right.labels, train.rows(held), splits.test)
    streams = open_streams(material, settings, 0, torch.device("cpu"))
    batches = [b for b in streams.train.epoch(0) if len(b.ids) == 100]
    pair = [build_tutor(arm, 0, shown, settings, 1000) for arm in ("untaught", teacher)]
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


def ratios(case: tuple[str, str, str, int, int], rounds: int) -> list[float]:
    """Cost of taught over untaught, round by round.

    Args:
        case: One of ``CASES``.
        rounds: How many rounds, after one that is not counted.

    Returns:
        One ratio per round.
    """
    plain, taught, batches, held_out = tutors(*case)
    batches = batches[: 20 if case[0] == "cnn" else case[3]]
    found = []
    for number in range(rounds + 1):
        order = (plain, taught) if number % 2 else (taught, plain)
        times = {tutor: spent(tutor, batches, held_out) for tutor in order}
        found.append(times[taught] / times[plain])
    return found[1:]


def main() -> None:
    """Measure every case, print a table and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    print("student    teacher          K   B   ratio [quartiles]    n")
    for case in CASES:
        student, _, teacher, every, back = case
        found = ratios(case, asked.rounds)
        low, middle, high = statistics.quantiles(found, n=4)
        line = f"{student:10} {teacher:15} {every:3} {back:3}"
        print(f"{line}   {middle:.2f} [{low:.2f}, {high:.2f}]   {len(found)}", flush=True)
        named = {"student": student, "teacher": teacher, "every": every, "look_back": back}
        results.append(named | {"ratio": middle, "quartiles": [low, high], "n": len(found)})
    if asked.out is not None:
        write_json(asked.out, {"environment": environment(), "results": results})


if __name__ == "__main__":
    main()

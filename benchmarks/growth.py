"""How the cost of a taught step grows with batch, models, window, copies, examples and classes.

    python -m benchmarks.growth [--cases NAME ...] [--rounds 5] [--out FILE]

Each case is a line of points that double, or grow by a factor of four. A round measures all
points of a line in alternating order, each for long enough to be read off the clock. Printed is
the median of the rounds' ratios to the first point, with quartiles, in CPU time of one torch
thread; and the exponent between neighbouring points, 1 where time grows in proportion. A taught
step is one of a period with one teacher step; that of several processes is the sum over them,
each with a batch of the same size.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from math import ceil, log
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from benchmarks.command import Benchmark, Row, main, size
from papers.framework.cost import Once, interleaved
from tutelage.augment import crop_and_flip
from tutelage.crossfit import (
    ForwardCorrected,
    estimate_transitions,
    label_errors,
    label_issues,
    label_posterior,
    refined_transitions,
)
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.models import TwoBlockCNN
from tutelage.signals import Replayed, Reversible, Signal, Unrolled
from tutelage.teachers import (
    CombinedTeacher,
    Copies,
    InternalState,
    MarginLoss,
    MetaLabelCorrection,
    OutOfFoldTargets,
    WorstCase,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch
from tutelage_cli.inspect.combined import combined
from tutelage_cli.inspect.example_tables import ExampleTable

CPU = torch.device("cpu")
SECONDS = size(40, 1) / 1000
"""the least that a point is measured for in a round"""
FEATURES, WIDTH, ROWS, CLASSES = size(256, 8), size(256, 8), size(64, 4), 10
PIXELS = size(28, 13)


class Point(NamedTuple):
    """What is measured of a line at one place."""

    place: int
    """on the line's axis"""
    once: Once


class Line(NamedTuple):
    """Points along an axis."""

    axis: str
    sizes: tuple[int, ...]
    build: Callable[[int], Point]


def along(first: int, factor: int = 2, count: int = 6) -> tuple[int, ...]:
    """Numbers, each so many times the one before; at small sizes the first two from 4."""
    return tuple(size(first, 4) * factor**n for n in range(size(count, 2)))


def student_of(width: int = WIDTH, classes: int = CLASSES) -> nn.Sequential:
    """A perceptron with one hidden layer, whose module ``1`` is its internal state."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, classes))


def batch_of(
    *shape: int, rows: int = ROWS, classes: int = CLASSES, examples: int = ROWS
) -> Batch:
    """Random inputs and labels, of random examples."""
    ids = torch.randint(examples, (rows,))
    return Batch(torch.randn(rows, *shape), torch.randint(classes, (rows,)), ids)


def parameters(module: nn.Module) -> int:
    """How many numbers a module learns."""
    return sum(p.numel() for p in module.parameters())


def period(
    student: nn.Module,
    teacher: nn.Module,
    draw: Callable[[], Batch],
    signal: Signal | None = None,
    objective: Objective = cross_entropy,
) -> Once:
    """Taught steps up to and with a teacher step.

    Args:
        student: The student.
        teacher: Its teacher.
        draw: Makes a batch.
        signal: Through as many steps as the period has; None: through two.
        objective: Of training; held-out examples have cross entropy.

    Returns:
        What takes them.
    """
    signal = signal or Unrolled(2)
    tutor = Tutor(
        student,
        SGD(student.parameters(), 1e-3, momentum=0.9),
        teacher,
        SGD(teacher.parameters(), 1e-3),
        signal=signal,
        teacher_every=signal.steps,
        objective=objective,
        metric=cross_entropy,
    )
    batches, held_out = [draw() for _ in range(signal.steps)], draw()

    def once() -> None:
        for batch in batches:
            tutor.step(batch, held_out if tutor.wants_held_out else None)

    return once


def batch_size(rows: int) -> Point:
    """A CNN of images."""
    student = TwoBlockCNN(1, CLASSES, PIXELS)
    draw = partial(batch_of, 1, PIXELS, PIXELS, rows=rows)
    return Point(rows, period(student, MarginLoss(student, CLASSES), draw))


def student_size(width: int) -> Point:
    """A wider student."""
    student = student_of(width)
    once = period(student, MarginLoss(student, CLASSES), partial(batch_of, FEATURES))
    return Point(parameters(student), once)


def teacher_size(width: int) -> Point:
    """A wider teacher of the student's internal state."""
    student = student_of()
    teacher = InternalState(student, classes=CLASSES, tap="1", hidden_layers=1, width=width)
    return Point(parameters(teacher), period(student, teacher, partial(batch_of, FEATURES)))


def window(signal: Callable[[int], Signal], steps: int) -> Point:
    """All steps of a window, with the teacher step at its end."""
    student = student_of()
    draw = partial(batch_of, FEATURES)
    return Point(steps, period(student, MarginLoss(student, CLASSES), draw, signal(steps)))


def copies(k: int) -> Point:
    """One step on augmented copies, weighed by their losses."""
    student = TwoBlockCNN(1, CLASSES, PIXELS)
    augment = partial(crop_and_flip, pad=4, mode="zeros", flip=False)
    teacher = CombinedTeacher(Copies(k, augment, include_original=True), WorstCase(1.0))
    tutor = Tutor(student, SGD(student.parameters(), 1e-3, momentum=0.9), teacher)
    batch = batch_of(1, PIXELS, PIXELS, rows=size(32, 2))
    batch = batch._replace(inputs=batch.inputs.sigmoid())
    return Point(k, lambda: tutor.step(batch))


class WeightTable(nn.Module):
    """A learned weight for each example."""

    def __init__(self, examples: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(examples))

    def weigh(self, prepared: PreparedBatch, _: Observation) -> Tensor:
        """Look weights [L] up."""
        return self.logits[prepared.ids].sigmoid()


def weight_table(examples: int) -> Point:
    """A weight of its own for each example."""
    draw = partial(batch_of, FEATURES, examples=examples)
    return Point(examples, period(student_of(), WeightTable(examples), draw))


def predictions(rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """Probabilities [N, C] and given labels [N], which the probabilities favour."""
    torch.manual_seed(0)
    given = torch.randint(classes, (rows,))
    logits = torch.randn(rows, classes).scatter_add(1, given[:, None], torch.ones(rows, 1))
    return logits.softmax(1), given


def out_of_fold(examples: int, classes: int, place: int) -> Point:
    """Targets that start from predictions of every example."""
    p, given = predictions(examples, classes)
    teacher = OutOfFoldTargets(torch.arange(examples), p, given)
    draw = partial(batch_of, FEATURES, classes=classes, examples=examples)
    return Point(place, period(student_of(classes=classes), teacher, draw))


def wrong_labels(rows: int, classes: int, place: int) -> Point:
    """The probability that each label is wrong, by two of the 32 draws."""
    p, given = predictions(rows, classes)
    checked = slice(0, min(rows, 100))
    return Point(place, lambda: label_errors(p, given, p[checked], given[checked], draws=2))


def cross_fitted(rows: int, classes: int, place: int) -> Point:
    """Transitions, posterior and issues of given out-of-fold predictions."""
    p, given = predictions(rows, classes)

    def once() -> None:
        rough = estimate_transitions(p[:100], given[:100])
        transitions = refined_transitions(p, rough, given)
        label_posterior(p, transitions, given)
        label_issues(p, given)

    return Point(place, once)


def inspected(rows: int) -> Point:
    """Tables of three students put together, as ``tutelage inspect`` does."""
    names = [f"{row}.png" for row in range(rows)]
    drawn = np.random.default_rng(0)
    students = [
        ExampleTable(
            f"seed {seed}",
            names,
            range(rows),
            given=["cat"] * rows,
            predicted=["dog"] * rows,
            true=None,
            losses=drawn.random(rows),
            weights=drawn.random(rows),
            held_out=None,
        )
        for seed in range(3)
    ]
    return Point(rows, lambda: combined(students, "loss", max_fpr=0.01, top=100))


def label_embedding(classes: int) -> Point:
    """Soft labels from an embedding of the given one."""
    student = student_of(classes=classes)
    teacher = MetaLabelCorrection(student, classes=classes, tap="1")
    draw = partial(batch_of, FEATURES, classes=classes)
    return Point(classes, period(student, teacher, draw))


def forward_corrected(classes: int) -> Point:
    """A loss with class transitions."""
    student = student_of(classes=classes)
    p, given = predictions(classes, classes)
    loss = ForwardCorrected(estimate_transitions(p, given))
    draw = partial(batch_of, FEATURES, classes=classes)
    return Point(classes, period(student, MarginLoss(student, classes), draw, objective=loss))


EXAMPLES = size(2000, 20)
"""of lines along classes"""
LINES = {
    "batch size": Line("rows", along(4), batch_size),
    "student": Line("parameters", along(64), student_size),
    "teacher": Line("parameters", along(128), teacher_size),
    **{
        f"window, {name}": Line("steps", along(4, count=5), partial(window, signal))
        for name, signal in {
            "Unrolled": Unrolled,
            "Reversible": Reversible,
            "Replayed, sqrt": Replayed,
            "Replayed, log": partial(Replayed, memory="log"),
        }.items()
    },
    "copies, WorstCase": Line("copies", along(1, count=5), copies),
    "examples, weight table": Line("examples", along(16384, 4, 5), weight_table),
    "examples, OutOfFoldTargets": Line(
        "examples", along(4096, 4, 5), lambda n: out_of_fold(n, CLASSES, n)
    ),
    "examples, label_errors": Line(
        "examples", along(1024, 4, 4), lambda n: wrong_labels(n, CLASSES, n)
    ),
    "examples, cross-fitting": Line(
        "examples", along(4096, 4, 4), lambda n: cross_fitted(n, CLASSES, n)
    ),
    "examples, inspect": Line("examples", along(1024, 4, 4), inspected),
    "classes, MetaLabelCorrection": Line("classes", along(10, 4, 5), label_embedding),
    "classes, ForwardCorrected": Line("classes", along(10, 4, 5), forward_corrected),
    "classes, OutOfFoldTargets": Line(
        "classes", along(10, 4, 4), lambda c: out_of_fold(EXAMPLES, c, c)
    ),
    "classes, label_errors": Line(
        "classes", along(10, 4, 4), lambda c: wrong_labels(EXAMPLES, c, c)
    ),
    "classes, cross-fitting": Line(
        "classes", along(10, 4, 5), lambda c: cross_fitted(EXAMPLES, c, c)
    ),
}
PROCESSES = "processes"
"""the case that needs some of its own"""


def several(once: Once) -> tuple[Once, int]:
    """Something done often enough to be read off the clock, and how often that is."""
    if size(0, 1):
        return once, 1
    once()
    once()  # with what the first one has left behind
    started = time.process_time()
    once()
    times = ceil(SECONDS / max(time.process_time() - started, 1e-6))

    def repeated() -> None:
        for _ in range(times):
            once()

    return repeated, times


def measured(name: str, rounds: int) -> list[Row]:
    """A line, relative to its first point."""
    if name == PROCESSES:
        return rows_of(name, "processes", in_processes(rounds))
    line = LINES[name]
    points = [line.build(number) for number in line.sizes]
    ready = {str(point.place): several(point.once) for point in points}
    times = interleaved({key: once for key, (once, _) in ready.items()}, rounds, CPU)
    found = {int(key): [t / ready[key][1] for t in spent] for key, spent in times.items()}
    return rows_of(name, line.axis, found)


def rows_of(name: str, axis: str, seconds: Mapping[int, list[float]]) -> list[Row]:
    """One row for each point.

    Args:
        name: Of the line.
        axis: What its places are.
        seconds: By place one number for each round.

    Returns:
        The rows, with the exponent from the point before.
    """
    first, rows, exponents = next(iter(seconds)), [], [None]
    for place, spent in seconds.items():
        ratios = [a / b for a, b in zip(spent, seconds[first], strict=True)]
        low, middle, high = quantiles(ratios, n=4, method="inclusive")
        facts = {"case": name, "axis": axis, "place": place, "time": middle}
        rows.append(
            facts | {"quartiles": [low, high], "seconds": median(spent), "n": len(spent)}
        )
    exponents += [
        log(b["time"] / a["time"]) / log(b["place"] / a["place"]) for a, b in pairwise(rows)
    ]
    return [row | {"exponent": e} for row, e in zip(rows, exponents, strict=True)]


def in_processes(rounds: int) -> dict[int, list[float]]:
    """CPU seconds of one process, and of two with a batch each."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["tutelage.training.tutor"])  # torch is imported once
    with TemporaryDirectory() as folder, ProcessPoolExecutor(2, mp_context=context) as pool:
        store = Path(folder) / "store"
        runs = [pool.submit(one_of_two, rank, store, rounds) for rank in range(2)]
        first, second = (run.result() for run in runs)
    return {n: [a + b for a, b in zip(first[n], second[n], strict=True)] for n in (1, 2)}


def one_of_two(rank: int, store: Path, rounds: int) -> dict[int, list[float]]:
    """What one of two processes spends when the first works alone, and when both do."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    times, found = size(10, 1), {1: [], 2: []}
    draw = partial(batch_of, FEATURES, rows=size(256, 4))
    alone, inner = student_of(size(1024, 8)), student_of(size(1024, 8))
    one = period(alone, MarginLoss(alone, CLASSES), draw)
    both = period(DistributedDataParallel(inner), MarginLoss(inner, CLASSES), draw)
    ready = {1: one if rank == 0 else lambda: None, 2: both}
    for number in range(-1, rounds):
        for processes, once in ready.items():
            dist.barrier()
            started = time.process_time()
            for _ in range(times):
                once()
            if number >= 0:
                found[processes].append(time.process_time() - started)
    dist.destroy_process_group()
    return found


def line(row: Row) -> str:
    """A point of a line, and the exponent up to it."""
    low, high = row["quartiles"]
    exponent = "" if row["exponent"] is None else f"exponent {row['exponent']:.2f}"
    return (
        f"{row['place']:>8} {row['axis']:10} {row['time']:8.2f} [{low:.2f}, {high:.2f}]  "
        f"{1000 * row['seconds']:9.2f} ms  n={row['n']}  {exponent}"
    )


BENCHMARK = Benchmark(
    cases=(*LINES, PROCESSES),
    measure=measured,
    line=line,
    rounds=5,
    names=("case", "place"),
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

"""What alignments over a few layers say about those over all of them, on trained students.

    python -m benchmarks.alignment.layers [--cases NAME ...] [--rounds 5] [--out FILE]

A two-block CNN (33 thousand parameters) and a ResNet-20 learn 2000 digits of which 40 % carry a
wrong label. Then the alignment of 500 of them with the gradient of 500 clean held-out ones is
taken, with batch normalisation as in evaluation. Printed is the rank correlation with the exact
values over all layers, as mean and standard deviation over seeds, one a round.
"""

import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.alignment.__main__ import ranks
from benchmarks.command import Benchmark, Row, main, size
from tutelage.models import build_student
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.types import Batch, Params
from tutelage_cli.data.noise import corrupt, transition_matrix
from tutelage_cli.data.sources import load
from tutelage_cli.data.splits import balanced_rows

HELD_OUT, SHOWN, JUDGED, BATCH = size(500, 10), size(2000, 20), size(500, 10), size(100, 10)
EPOCHS = {"cnn": 3, "resnet20": 3}
LAYERS: dict[str, dict[str, list[str]]] = {
    "cnn": {"head": ["fc"], "head and last block": ["fc", "conv2", "bn2"]},
    "resnet20": {"head": ["fc"], "head and last stage": ["fc", "stage3"]},
}
Ways = dict[str, Callable[[nn.Module, Batch, Params], Tensor]]


def ways(student: str) -> Ways:
    """Ways to take the alignments, the exact one over all layers first.

    Args:
        student: The student's name.

    Returns:
        By name.
    """

    def of(layers: list[str]) -> Callable[[nn.Module, Batch, Params], Tensor]:
        return lambda s, b, g: gradient_dots(s, b, g, method="ghost", layers=layers)

    exact: Ways = {"all layers": lambda s, b, g: gradient_dots(s, b, g, method="ghost")}
    few: Ways = {name: of(layers) for name, layers in LAYERS[student].items()}
    inexact: Ways = {"difference": lambda s, b, g: gradient_dots(s, b, g, method="difference")}
    return exact | few | inexact


def trained(name: str, seed: int) -> tuple[nn.Module, Batch, Batch]:
    """A student that has learned from noisy labels.

    Args:
        name: The student's.
        seed: Of its weights, of the noise and of the order of its batches.

    Returns:
        The student in evaluation mode; some of what it was shown; what is held out.
    """
    train = load("mnist5k").train
    held, rest = balanced_rows(train.labels, HELD_OUT, len(train.classes), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    order = rest[torch.randperm(len(rest), generator=generator)]  # they come class by class
    chosen, judge = train.rows(order[:SHOWN]), train.rows(held)
    matrix = transition_matrix("uniform", 0.4, len(train.classes))
    noisy = corrupt(chosen.labels, matrix, seed=seed)
    student = build_student(name, classes=10, channels=1, size=28, seed=seed)
    optimizer = torch.optim.SGD(student.parameters(), 0.05, momentum=0.9)
    shown, clean = pixels(chosen.images), pixels(judge.images)
    labels = torch.as_tensor(noisy)
    for _ in range(EPOCHS[name]):
        for rows in torch.randperm(SHOWN, generator=generator).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(student(shown[rows]), labels[rows]).backward()
            optimizer.step()
    some = Batch(shown[:JUDGED], labels[:JUDGED], torch.arange(JUDGED))
    judged_by = Batch(clean, torch.as_tensor(judge.labels), torch.arange(HELD_OUT))
    return student.eval(), some, judged_by


def pixels(images: Any) -> Tensor:
    """Images as the students take them.

    Args:
        images: Bytes.

    Returns:
        [N, 1, 28, 28], from 0 to 1.
    """
    found = torch.as_tensor(images).float() / 255
    return found.reshape(len(found), 1, 28, 28)


def in_parts(
    way: Callable[[nn.Module, Batch, Params], Tensor],
    student: nn.Module,
    batch: Batch,
    g: Params,
) -> Tensor:
    """Alignments of many examples, some at a time.

    Args:
        way: How.
        student: The student.
        batch: All examples.
        g: The direction.

    Returns:
        One number per example.
    """
    parts = torch.arange(len(batch.ids)).split(BATCH)
    return torch.cat([
        way(student, Batch(batch.inputs[k], batch.targets[k], batch.ids[k]), g) for k in parts
    ])


def one_seed(name: str, seed: int) -> dict[str, float]:
    """Rank correlations for one student.

    Args:
        name: The student's.
        seed: Its seed.

    Returns:
        By way.
    """
    student, batch, held_out = trained(name, seed)
    params = dict(student.named_parameters())
    loss = F.cross_entropy(student(held_out.inputs), held_out.targets)
    g = dict(zip(params, torch.autograd.grad(loss, list(params.values())), strict=True))
    found = {way: ranks(in_parts(f, student, batch, g)) for way, f in ways(name).items()}
    exact = found["all layers"]
    return {way: float(r @ exact / (r.norm() * exact.norm())) for way, r in found.items()}


def measured(name: str, rounds: int) -> list[Row]:
    """Rank correlations of every way, over as many seeds as there are rounds."""
    seeds, rows = [one_seed(name, seed) for seed in range(rounds)], []
    for way in seeds[0]:
        values = [seed[way] for seed in seeds]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        row = {"student": name, "way": way, "n": len(values)}
        rows.append(row | {"spearman": statistics.mean(values), "spread": spread})
    return rows


def line(row: Row) -> str:
    """A way with its rank correlation."""
    return f"{row['way']:22} spearman {row['spearman']:.3f} ({row['spread']:.3f})  n={row['n']}"


BENCHMARK = Benchmark(tuple(LAYERS), measured, line, rounds=5, names=("student", "way"))

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

"""What a step on ten copies of each image costs, and how far a cheaper one is off.

    python -m benchmarks.mmel [--cases NAME ...] [--rounds 7] [--out FILE]

Each round takes one step of every kind in alternating order, on 1,000 digits in
batches of 50, by students that were trained for some epochs on one augmented copy of each.
Printed is the median ratio to a plain step (one copy) with its quartiles, in CPU time of one
thread; then the distance of the gradient from that of the step with all rows, in parts of the
latter, as the mean over five other batches; and the share of rows that the backward pass has.

Two kinds draw two copies of each example, by their weights, for an unbiased estimate of the
gradient of H: by the weights that a pass over all copies without a graph gives, or by those of
the student one step before, which are given here for nothing and so make the least such a step
can cost. The latter is unbiased for the old weights alone.
"""

from collections.abc import Iterator
from functools import partial
from itertools import count
from statistics import fmean, median, quantiles
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from benchmarks.command import Benchmark, Row, main, size
from papers.framework.cost import Once, interleaved
from tutelage.augment import crop_and_flip
from tutelage.models import TwoBlockCNN
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import CombinedTeacher, Copies, UniformCopies, WorstCase, WorstCaseSoft
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch
from tutelage_cli.data.batches import Batches, CollateImages
from tutelage_cli.data.sources import load
from tutelage_cli.data.splits import limit_rows

COPIES, DIGITS, ROWS = size(10, 2), size(1000, 20), size(50, 4)
EPOCHS = {"1 epoch": 1} if size(0, 1) else {"1 epoch": 1, "8 epochs": 8}
CPU = torch.device("cpu")
KINDS = {
    "DA": lambda: UniformCopies(),
    "UNI": lambda: UniformCopies(),
    "H": lambda: WorstCase(1.0),
    "S": lambda: WorstCaseSoft(1.0, 1.0),
    **{
        f"H, drop_below={x:g}": partial(WorstCase, 1.0, drop_below=x) for x in (1e-3, 0.01, 0.1)
    },
    **{
        f"S, drop_below={x:g}": partial(WorstCaseSoft, 1.0, 1.0, drop_below=x)
        for x in (0.01, 0.1)
    },
}


DRAWN = {"H, two drawn": "now", "H, two drawn by the step before": "before"}
"""by kind, when the weights are from that two copies of each example are drawn by"""


class Trained(NamedTuple):
    """A student after some epochs, to start from."""

    name: str
    epochs: int
    state: dict[str, Tensor]
    before: dict[str, Tensor]
    """one step earlier"""


def student(name: str) -> nn.Module:
    """A two-block CNN.

    Args:
        name: ``batch norm``, or ``group norm`` in its place.

    Returns:
        The network.
    """
    with seeded(0, CPU):
        net = TwoBlockCNN(1, 10, 28)
    if name == "group norm":
        for part, width in (("bn1", 32), ("bn2", 64)):
            net.register_module(part, nn.GroupNorm(8, width))
    return net


def digits() -> Batches:
    """The images, in 0..1.

    Returns:
        Their batches.
    """
    train = load("mnist5k").train
    rows = limit_rows(train.labels, DIGITS, 10, seed=0)
    collate = CollateImages(torch.zeros(1), torch.ones(1))
    return Batches(train.rows(rows), ROWS, 0, collate, CPU)


def tutor_of(kind: str, net: nn.Module, lr: float = 0.1) -> Tutor:
    """A student that sees copies.

    Args:
        kind: One of ``KINDS``.
        net: The student.
        lr: Of momentum SGD.

    Returns:
        Its tutor.
    """
    augment = partial(crop_and_flip, pad=4, mode="zeros", flip=False)
    k = 1 if kind == "DA" else COPIES
    teacher = CombinedTeacher(Copies(k, augment, include_original=k > 1), KINDS[kind]())
    return Tutor(net, SGD(net.parameters(), lr, momentum=0.9, weight_decay=5e-4), teacher)


def trained(name: str, epochs: int, batches: Batches) -> Trained:
    """Train on one augmented copy.

    Args:
        name: The student's name.
        epochs: How long.
        batches: The images.

    Returns:
        Where it got to.
    """
    net = student(name)
    tutor = tutor_of("DA", net)
    before = {}
    for epoch in range(epochs):
        for batch in batches.epoch(epoch):
            before = {key: value.clone() for key, value in net.state_dict().items()}
            tutor.step(batch)
    return Trained(name, epochs, net.state_dict(), before)


class Drawing:
    """Steps on two copies of each example, drawn by weights ``softmax(l)`` over its copies."""

    def __init__(self, kind: str, net: nn.Module, lr: float) -> None:
        self.now = DRAWN[kind] == "now"
        self.net = net
        self.optimizer = SGD(net.parameters(), lr, momentum=0.9, weight_decay=5e-4)
        self.copies = tutor_of("H", net).teacher.get_submodule("prepares")
        self.drawn_by: Tensor | None = None
        self.kept: PreparedBatch | None = None

    def prepared(self, batch: Batch) -> PreparedBatch:
        """All copies of a batch; those with weights from before were made before, too."""
        assert isinstance(self.copies, Copies)
        if self.now or self.kept is None:
            self.kept = self.copies.prepare(batch)
        return self.kept

    @torch.no_grad()
    def weights(self, prepared: PreparedBatch) -> Tensor:
        """Those of all copies of each example [B, COPIES], by a pass without a graph."""
        losses = F.cross_entropy(self.net(prepared.inputs), prepared.targets, reduction="none")
        return losses.view(COPIES, -1).T.softmax(1)

    def step(self, batch: Batch) -> None:
        """One step of the student; a weight cancels with the probability to be drawn by it."""
        prepared, examples = self.prepared(batch), len(batch.ids)
        if self.now or self.drawn_by is None:
            self.drawn_by = self.weights(prepared)
        copies = self.drawn_by.multinomial(2, replacement=True)
        rows = (copies * examples + torch.arange(examples)[:, None]).flatten()
        self.optimizer.zero_grad()
        F.cross_entropy(self.net(prepared.inputs[rows]), prepared.targets[rows]).backward()
        self.optimizer.step()


def _drawn_gradient(kind: str, start: Trained, batch: Batch) -> tuple[Tensor, float]:
    # of one step on two drawn copies, which are among those of H
    net = student(start.name)
    net.load_state_dict(start.state)
    drawing = Drawing(kind, net, lr=0.0)
    batch = batch._replace(seed=mixed_seed(0, 0))  # that of a tutor's first step
    if not drawing.now:
        before = student(start.name)
        before.load_state_dict(start.before)
        earlier = Drawing(kind, before, lr=0.0)
        drawing.drawn_by = earlier.weights(earlier.prepared(batch))
    drawing.step(batch)
    found = [p.grad.flatten() for p in net.parameters() if p.grad is not None]
    return torch.cat(found), 2 / COPIES


def gradient(kind: str, start: Trained, batch: Batch) -> tuple[Tensor, float]:
    """Of one step from the same start.

    Args:
        kind: One of ``KINDS`` or ``DRAWN``.
        start: Where from.
        batch: The images.

    Returns:
        The gradient in one row; the share of rows that the backward pass had.
    """
    if kind in DRAWN:
        return _drawn_gradient(kind, start, batch)
    net = student(start.name)
    net.load_state_dict(start.state)
    seen: list[int] = []

    def watch(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if torch.is_grad_enabled():
            seen.append(len(inputs[0]))

    tutor = tutor_of(kind, net, lr=0.0)
    net.register_forward_pre_hook(watch)
    tutor.step(batch)
    found = [p.grad.flatten() for p in net.parameters() if p.grad is not None]
    rows = COPIES if kind != "DA" else 1
    return torch.cat(found), sum(seen) / (rows * len(batch.ids))


def error(kind: str, start: Trained, batches: list[Batch]) -> tuple[float, float]:
    """How far a kind's gradient is from that of the same loss over all rows.

    Args:
        kind: One of ``KINDS``.
        start: The student.
        batches: Some.

    Returns:
        Mean relative distance, and mean share of rows.
    """
    whole = [gradient(kind.partition(",")[0], start, b)[0] for b in batches]
    found = [gradient(kind, start, b) for b in batches]
    off = [float((g - w).norm() / w.norm()) for (g, _), w in zip(found, whole, strict=True)]
    return fmean(off), fmean(share for _, share in found)


def endless(batches: Batches) -> Iterator[Batch]:
    """Batches without end.

    Args:
        batches: The images.

    Yields:
        One after the other.
    """
    for epoch in count():
        yield from batches.epoch(100 + epoch)


def measured(start: Trained, batches: Batches, rounds: int) -> list[Row]:
    """All kinds from one start.

    Args:
        start: The student.
        batches: The images.
        rounds: How often.

    Returns:
        A row for each kind.
    """
    ready: dict[str, Once] = {}
    for kind in (*KINDS, *DRAWN):
        net = student(start.name)
        net.load_state_dict(start.state)
        stepping = Drawing(kind, net, 0.0) if kind in DRAWN else tutor_of(kind, net, lr=0.0)
        stream = endless(batches)
        ready[kind] = lambda stepping=stepping, stream=stream: stepping.step(next(stream))
        ready[kind]()
    times = interleaved(ready, rounds, CPU)
    some = [b for b, _ in zip(endless(batches), range(5), strict=False)]
    rows: list[Row] = []
    for kind in ready:
        ratios = [a / b for a, b in zip(times[kind], times["DA"], strict=True)]
        low, _, high = quantiles(ratios, n=4, method="inclusive")
        off, share = error(kind, start, some)
        rows.append({
            "student": start.name,
            "epochs": start.epochs,
            "kind": kind,
            "time": median(ratios),
            "quartiles": [low, high],
            "n": rounds,
            "gradient_error": off,
            "rows_backward": share,
        })
    return rows


def case(name: str, rounds: int) -> list[Row]:
    """Train a student, and measure all kinds of steps from there."""
    norm, _, epochs = name.partition(", ")
    batches = digits()
    return measured(trained(norm, EPOCHS[epochs], batches), batches, rounds)


def line(row: Row) -> str:
    """A kind of step: its time, the error of its gradient, the rows of its backward pass."""
    low, high = row["quartiles"]
    return (
        f"{row['kind']:32} {row['time']:5.2f} [{low:.2f}, {high:.2f}]"
        f"  error {row['gradient_error']:.4f}  rows {row['rows_backward']:.2f}"
    )


BENCHMARK = Benchmark(
    cases=tuple(
        f"{norm}, {epochs}" for norm in ("batch norm", "group norm") for epochs in EPOCHS
    ),
    measure=case,
    line=line,
    rounds=7,
    names=("student", "epochs", "kind"),
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

"""How much of a hypergradient is left out where weights depend on the student, detached.

    python -m benchmarks.left_out_paths [--cases NAME ...] [--out FILE]

A tanh network of 6 units on 12 examples, SGD with momentum 0.9 and rate 0.5, in float64. The
hypergradient over the last K steps is compared with central differences of real training along
8 random directions.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.optim import SGD

from benchmarks.command import Benchmark, Row, main, size
from tutelage.signals import Unrolled
from tutelage.teachers import CombinedTeacher, InternalState, LossWeigher
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch, as_prepared

STEPS, DIRECTIONS = (1, 2, 5, size(20, 6)), size(8, 2)
GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(12, 4, generator=GENERATOR, dtype=torch.float64)
HELD_OUT = torch.randn(7, 4, generator=GENERATOR, dtype=torch.float64)


class Scales(nn.Module):
    """Prepares: scales every feature by what is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Scaled inputs.

        Args:
            batch: The batch.

        Returns:
            Its inputs scaled.
        """
        return as_prepared(batch)._replace(inputs=batch.inputs * self.scale)


def student() -> nn.Module:
    """A fresh student, always the same.

    Returns:
        The network.
    """
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def surface(*, attached: bool) -> nn.Module:
    """A teacher of margin and loss.

    Args:
        attached: Whether its weights are.

    Returns:
        The teacher.
    """
    facts = ("margin", "loss")
    return InternalState(
        student(),
        classes=3,
        surface=facts,
        hidden_layers=1,
        width=8,
        label=False,
        attached=attached,
    )


TEACHERS: dict[str, Callable[[bool], nn.Module]] = {
    "margin and loss": lambda attached: surface(attached=attached),
    "loss": lambda attached: LossWeigher(width=8, attached=attached),
    "scaled inputs, and loss": lambda attached: CombinedTeacher(
        Scales(), LossWeigher(width=8), attached=attached
    ),
}


def trained(make: Callable[[], nn.Module], steps: int, move: list[Tensor] | None) -> Tensor:
    """Train under a teacher.

    Args:
        make: Makes the teacher.
        steps: How many steps are taken.
        move: By how much its parameters are moved beforehand; None: the signal looks instead.

    Returns:
        The hypergradient, flat, where the signal looks; else the held-out loss.
    """
    torch.manual_seed(9)
    module, teacher = student(), make().double()
    params = list(teacher.parameters())
    with torch.no_grad():
        for p in params:
            p.add_(0.5 * torch.randn_like(p))
        for p, d in zip(params, move or [], strict=move is not None):
            p.add_(d)
    before, looks = [p.detach().clone() for p in params], move is None
    tutor = Tutor(
        module,
        SGD(module.parameters(), lr=0.5, momentum=0.9),
        teacher,
        SGD(params, lr=1.0) if looks else None,
        signal=Unrolled(steps) if looks else None,
        teacher_every=steps if looks else 1,
    )
    held_out = Batch(HELD_OUT, torch.arange(7) % 3, torch.arange(7))
    for number in range(steps):
        rows = torch.randperm(12, generator=torch.Generator().manual_seed(number))[:5]
        due = held_out if tutor.wants_held_out else None
        tutor.step(Batch(X[rows], rows % 3, rows), due)
    if not looks:
        loss = nn.functional.cross_entropy(module(held_out.inputs), held_out.targets)
        return loss.detach()
    moved = zip(before, params, strict=True)
    return torch.cat([(a - p).detach().flatten() for a, p in moved])


def error_of(make: Callable[[], nn.Module], steps: int) -> tuple[float, float]:
    """How far the hypergradient is from differences of real training.

    Args:
        make: Makes the teacher.
        steps: K.

    Returns:
        The relative error over the directions, and the cosine.
    """
    generator, got, want = torch.Generator().manual_seed(1), [], []
    found, shapes = trained(make, steps, None), [p.shape for p in make().parameters()]
    for _ in range(DIRECTIONS):
        kind = {"generator": generator, "dtype": torch.float64}
        move = [1e-5 * torch.randn(shape, **kind) for shape in shapes]
        up, down = (trained(make, steps, [s * d for d in move]) for s in (1, -1))
        got.append(found @ torch.cat([d.flatten() for d in move]))
        want.append((up - down) / 2)
    slopes, truth = torch.stack(got), torch.stack(want)
    error = (slopes - truth).norm() / truth.norm()
    return float(error), float(torch.cosine_similarity(slopes, truth, 0))


def measured(name: str, _rounds: int) -> list[Row]:
    """Error and cosine for a teacher with its weights held fixed, and ``attached``."""
    make = TEACHERS[name]
    rows: list[Row] = []
    for attached in (False, True):
        for steps in STEPS:
            error, cosine = error_of(lambda d=attached: make(d), steps)
            found = {"error": error, "cosine": cosine}
            rows.append({"teacher": name, "attached": attached, "steps": steps, **found})
    return rows


def line(row: Row) -> str:
    """One window length."""
    path = "attached" if row["attached"] else "detached"
    return f"{path} K = {row['steps']:<2}  error {row['error']:.0e}  cosine {row['cosine']:.3f}"


BENCHMARK = Benchmark(
    tuple(TEACHERS), measured, line, rounds=1, names=("teacher", "attached", "steps")
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

"""Whether a device gives what the CPU gives: signals, recurrent students, autocast, alignments.

    python -m benchmarks.on_device [--device cuda] [--students NAME ...] [--out FILE]

Every student of `tests/cases.py` takes a few steps under a teacher, in float64, on the CPU and
on the device, from the same start and on the same batches. What is compared is how far the
teacher moved, in norm and relative to the CPU. Dropout draws other numbers on another device,
so it is off where devices are compared; with it, signals are compared on the device alone. On
the CPU itself gaps are 0, and float16 is left out, which torch lacks there for some layers.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD

from benchmarks.command import size
from benchmarks.device_setup import AWKWARD, ByLoss, Setup
from papers.framework.jobs import hardware
from tutelage.errors import UnsupportedStudentError
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.per_example.gradient_dots import Method
from tutelage.signals import (
    GradientAlignment,
    Implicit,
    Lookahead,
    Neumann,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
)
from tutelage.signals.products import Alignment
from tutelage.storage.json_files import environment, write_json
from tutelage.teachers import SplitSampler
from tutelage.training.tutor import Tutor

CPU = torch.device("cpu")
STEPS = size(8, 4)
EXACT = 1e-9
"""float64 sums in another order, through eight steps"""
COARSE = {torch.bfloat16: 0.4, torch.float16: 0.05}
"""rounding to 8 or 11 bits moved the same teacher by up to 0.23 and 0.01 on the CPU"""
SIGNALS: dict[str, Signal] = {
    "Unrolled": Unrolled(3),
    "Replayed, sqrt": Replayed(3, "sqrt"),
    "Replayed, log": Replayed(3, "log"),
    "Reversible": Reversible(3),
    "Implicit, 3 terms": Implicit(Neumann(3, 0.1)),
    "Lookahead": Lookahead(),
    "Lookahead, ghost": Lookahead(Alignment("ghost")),
    "Lookahead, forward": Lookahead(Alignment("forward")),
    "Lookahead, re-step": Lookahead(mode="restep"),
    "Lookahead, next batch": Lookahead(evaluate_on="next"),
    "GradientAlignment": GradientAlignment(),
}
ALIKE: dict[str, tuple[Signal, Signal]] = {
    **{k: (SIGNALS[k], Unrolled(3)) for k in ("Replayed, sqrt", "Replayed, log", "Reversible")},
    "Lookahead": (Lookahead(), Unrolled(1)),
}
"""signals that have to agree on one device"""
METHODS: dict[Method, float] = {"ghost": EXACT, "forward": EXACT, "difference": 1e-4}
"""tolerance of each; a difference's own error is about 1e-6"""


def moved(name: str, signal: Signal, of: Setup) -> Tensor:
    """How far a teacher moves while it teaches.

    Args:
        name: The student's name.
        signal: How it learns.
        of: On what.

    Returns:
        Its parameters' change, flat, on the CPU.
    """
    student, batches = of.student(name), of.batches()
    torch.manual_seed(1)
    sampling = isinstance(signal, GradientAlignment)
    teacher = SplitSampler([50, 50]) if sampling else ByLoss()
    teacher.to(of.device, of.dtype)
    rule = SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    learner = SGD(teacher.parameters(), lr=1.0)
    every = signal.steps
    tutor = Tutor(student, rule, teacher, learner, signal=signal, teacher_every=every)
    before = nn.utils.parameters_to_vector(teacher.parameters()).detach().clone()
    for batch in islice(batches, STEPS):
        with of.context:
            tutor.step(batch, next(batches) if tutor.wants_held_out else None)
    after = nn.utils.parameters_to_vector(teacher.parameters()).detach()
    return (after - before).double().cpu()


def rewards(name: str, method: Method, of: Setup) -> Tensor:
    """Alignment with a fixed direction.

    Args:
        name: The student's name.
        method: How it is taken.
        of: On what.

    Returns:
        [B], on the CPU.
    """
    student, batch = of.student(name), next(of.batches())
    draws = torch.Generator().manual_seed(2)
    direction = {
        k: torch.randn(p.shape, generator=draws, dtype=torch.float64).to(of.device, of.dtype)
        for k, p in student.named_parameters()
        if p.requires_grad
    }
    return gradient_dots(student, batch, direction, method=method).detach().double().cpu()


def compared(
    got: Callable[[], Tensor], want: Callable[[], Tensor], tolerance: float
) -> dict[str, Any]:
    """One check; an error is an answer, too.

    Args:
        got: What is judged.
        want: What judges.
        tolerance: Of the gap, in norm and relative.

    Returns:
        ``gap`` and ``ok``, or ``error``.
    """
    try:
        found, expected = got(), want()
    except UnsupportedStudentError:
        return {"refused": True, "ok": refused(got) and refused(want)}
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks go on
        return {"error": f"{type(error).__name__}: {error}"[:300], "ok": False}
    gap = float((found - expected).norm() / expected.norm())
    return {"gap": gap, "tolerance": tolerance, "ok": gap <= tolerance}


def refused(got: Callable[[], Tensor]) -> bool:
    """Whether a student is refused.

    Args:
        got: What should refuse it.

    Returns:
        True if so.
    """
    try:
        got()
    except UnsupportedStudentError:
        return True
    return False


def checks(name: str, device: torch.device) -> Iterator[dict[str, Any]]:
    """All checks of a student.

    Args:
        name: Its name.
        device: What is judged.

    Yields:
        What came of each.
    """
    there, here, drops = Setup(device), Setup(CPU), Setup(device, dropout=True)
    for way, signal in SIGNALS.items():
        pair = partial(moved, name, signal, there), partial(moved, name, signal, here)
        yield {"what": "signal", "way": way} | compared(*pair, EXACT)
    for way, (signal, like) in ALIKE.items():
        pair = partial(moved, name, signal, drops), partial(moved, name, like, drops)
        yield {"what": "with dropout", "way": way} | compared(*pair, EXACT)
    for method, tolerance in METHODS.items():
        pair = partial(rewards, name, method, there), partial(rewards, name, method, here)
        yield {"what": "alignment", "way": method} | compared(*pair, tolerance)
    full = Setup(device, torch.float32)
    for dtype, tolerance in COARSE.items():
        if device.type == "cpu" and dtype == torch.float16:
            continue
        cast = Setup(device, torch.float32, dtype)
        for way in ("Unrolled", "Lookahead"):
            go = partial(moved, name, SIGNALS[way])
            pair = partial(go, cast), partial(go, full)
            row = {"what": f"autocast to {dtype}".replace("torch.", ""), "way": way}
            yield row | compared(*pair, tolerance)


def line(row: dict[str, Any]) -> str:
    """A check in a line.

    Args:
        row: What came of it.

    Returns:
        The line.
    """
    told = row.get("error") or ("refused" if "refused" in row else f"{row['gap']:.1e}")
    verdict = "ok    " if row["ok"] else "FAILED"
    return f"{verdict} {row['student']:24} {row['what']:20} {row['way']:24} {told}"


def main() -> int:
    """Check the students asked for; what is found is written after each.

    Returns:
        1 where a check failed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--students", nargs="*", choices=AWKWARD, default=AWKWARD)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    device, rows = torch.device(asked.device), []
    print("torch", torch.__version__, hardware(device.type), flush=True)
    for name in asked.students:
        rows += ({"student": name} | row for row in checks(name, device))
        if asked.out is not None:
            head = {"hardware": hardware(device.type), "environment": environment()}
            write_json(asked.out, head | {"checks": rows})
        print(*(line(row) for row in rows if row["student"] == name), sep="\n", flush=True)
    failed = sum(not row["ok"] for row in rows)
    print(f"{len(rows) - failed} of {len(rows)} checks passed on {hardware(device.type)}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

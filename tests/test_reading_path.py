"""The files that a step runs through are those that the architecture page lists."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

import tutelage
from tutelage.signals import Unrolled
from tutelage.teachers import MarginLoss
from tutelage.training import Tutor
from tutelage.types import Batch

PACKAGE = Path(tutelage.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "architecture.md"
MOST_LINES = 1200
"""of the files in reading order together"""


def listed() -> tuple[list[str], set[str]]:
    """Files of the page's section: those in reading order, and those that they call."""
    section = PAGE.read_text(encoding="utf-8").split("## How a step goes")[1].split("\n## ")[0]
    path = re.findall(r"^\d\. `([\w/]+\.py)`", section, re.MULTILINE)
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return path, {name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row)}


def files_run(action: Callable[[], object]) -> set[str]:
    """The library's files with a function that an action calls."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(before)
    inside = [Path(name) for name in found if name.startswith(f"{PACKAGE}/")]
    return {path.relative_to(PACKAGE).as_posix() for path in inside}


def steps(tutor: Tutor, number: int) -> None:
    """Steps on random batches, the held-out ones among them."""
    for step in range(number):
        rows = [
            Batch(torch.randn(5, 6), torch.randint(3, (5,)), torch.arange(5) + 5 * step)
            for _ in range(2)
        ]
        tutor.step(rows[0], rows[1] if tutor.wants_held_out else None)


def taught_by_unrolling() -> Tutor:
    student = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    teacher = MarginLoss(student, classes=3)
    return Tutor(
        student,
        torch.optim.SGD(student.parameters(), lr=0.1),
        teacher,
        torch.optim.Adam(teacher.parameters(), lr=0.02),
        signal=Unrolled(steps=3),
        teacher_every=3,
    )


def test_a_window_runs_through_the_files_that_the_page_lists_and_no_others() -> None:
    tutor = taught_by_unrolling()
    steps(tutor, 6)  # what is checked at the first steps is left out
    path, called = listed()
    assert not called & set(path)
    assert files_run(lambda: steps(tutor, 3)) == called | set(path)


def test_the_files_in_reading_order_are_short() -> None:
    path, _ = listed()
    sources = [(PACKAGE / name).read_text(encoding="utf-8") for name in path]
    assert len(path) > 0
    assert sum(len(source.splitlines()) for source in sources) <= MOST_LINES


def test_another_signal_runs_through_other_files() -> None:
    tutor = taught_by_unrolling()
    assert tutor.teacher_updater is not None
    tutor.teacher_updater.signal = tutelage.signals.Lookahead()
    steps(tutor, 3)
    path, called = listed()
    assert "training/one_step.py" in files_run(lambda: steps(tutor, 3)) - called - set(path)

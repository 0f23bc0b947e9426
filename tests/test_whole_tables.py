"""A table in the terminal never cuts a number."""

import io

import pytest
from rich.console import Console

from tutelage_cli.terminal import DASH, say_table

NAMES = ("Arm", "Test accuracy, %", "Memory, MiB", "AUROC")
ROWS = [
    ("untaught [v1]", "79.65 ± 3.32", "111", DASH),
    ("learned-augmentation", "82.35 ± 1.34", "50", DASH),
]


def _said(width: int, *, terminal: bool, rows=ROWS) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, no_color=True)
    say_table(console, NAMES, rows, title="Means", spare=("Memory, MiB",))
    return out.getvalue()


@pytest.mark.parametrize("width", [10, 40, 80])
def test_in_a_pipe_it_is_as_wide_as_it_is(width):
    lines = _said(width, terminal=False).splitlines()
    assert any(
        "learned-augmentation" in line and "82.35 ± 1.34" in line and "50" in line
        for line in lines
    )
    assert "untaught [v1]" in "".join(lines)


def test_a_column_that_says_nothing_is_left_out():
    assert "AUROC" not in _said(80, terminal=False)
    known = [(*row[:3], "0.9") for row in ROWS]
    assert "AUROC" in _said(80, terminal=False, rows=known)


def test_a_narrow_terminal_goes_without_what_can_be_spared_and_a_narrower_one_line_by_line():
    assert "Memory" in _said(80, terminal=True)
    spared = _said(40, terminal=True)
    assert "Memory" not in spared
    assert "82.35 ± 1.34" in spared
    assert max(len(line.rstrip()) for line in _said(40, terminal=False).splitlines()) > 40
    told = _said(20, terminal=True)
    assert "Arm: untaught [v1]; Test accuracy, %: 79.65 ± 3.32; Memory, MiB: 111" in told
    assert told.startswith("Means:\n")

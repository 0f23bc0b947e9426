"""Output of a command: a result on stdout, progress, or one JSON document."""

import json
import math
import os
import sys
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

DASH = "\N{EN DASH}"
"""in place of a value that is missing or not finite"""
WIDE = 400
"""width of a table in columns where the output is no terminal"""
IN_A_PIPE = 140
"""columns at which sentences are wrapped where the output is no terminal"""
RECENT = 1 / 10
"""share of the work by which the pace is estimated"""
FEWEST_MARKS = 5
"""of progress that the pace is estimated by, where there are as many"""


@dataclass(frozen=True)
class Output:
    """Flags of a command that say what it prints."""

    quiet: bool = False
    """Print the result alone, without progress."""

    json: bool = False
    """Print the result as one JSON document on stdout; progress goes to stderr."""

    def progress(self) -> Console:
        """The console for progress."""
        return Console(stderr=self.json, quiet=self.quiet)

    def notice(self) -> Console:
        """The console for what also ``--quiet`` prints, on stderr: how to go on."""
        return Console(stderr=self.json or self.quiet)

    def result(self) -> Console:
        """The console for the result."""
        wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
        return Console(quiet=self.json, width=IN_A_PIPE if wide else None)

    def document(self, content: Mapping[str, Any]) -> None:
        """Print the result as JSON if ``--json`` was given."""
        if self.json:
            text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write(f"{text}\n")


class Pace:
    """Estimates the remaining time from the recent pace, in wall-clock seconds.

    The pace is that of the last tenth of the work, or of the last few pieces where these are
    more: a machine may be busier at some times than at others.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._marks: deque[tuple[float, int | float]] = deque([(0.0, 0)])

    @property
    def seconds(self) -> float:
        """Seconds since it was created."""
        return time.monotonic() - self._began

    def left(self, done: int | float, total: int | float) -> str:
        """The remaining time, as text."""
        if not 0 < done < total:
            return ""
        marks, now = self._marks, self.seconds
        if done > marks[-1][1]:
            marks.append((now, done))
        while len(marks) > FEWEST_MARKS and marks[1][1] <= done - RECENT * total:
            marks.popleft()
        start, before = marks[0]
        return f"about {clock((now - start) * (total - done) / (done - before))} left"


def progress_bar(console: Console, name: str) -> Progress:
    """A bar with the description of its task on a terminal; nothing in a pipe."""
    text = TextColumn("{task.description}", markup=False)
    columns = TextColumn(name), BarColumn(bar_width=20), MofNCompleteColumn(), text
    return Progress(*columns, console=console, disable=not console.is_terminal)


@contextmanager
def showing(show: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``show`` in a thread; the event it is given is set when the block ends."""
    done = threading.Event()
    watcher = threading.Thread(target=show, args=(done,), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def clock(seconds: float) -> str:
    """A duration as on a clock."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def roughly(seconds: float) -> str:
    """A duration that is not known well: in seconds, minutes or hours."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


def listed(*parts: str) -> str:
    """Join the parts of a line that are not empty."""
    return "; ".join(part for part in parts if part)


def say(console: Console, text: str) -> None:
    """Print a line without markup, colours or line breaks."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def say_table(
    console: Console,
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Print a table without truncating any cell.

    On a terminal that is too narrow, the columns in ``spare`` are left out, or else every row
    is printed as a line. In a file or a pipe the table is as wide as it needs to be.
    """
    filled = [place for place, _ in enumerate(names) if any(row[place] != DASH for row in rows)]
    room = console.width if console.is_terminal else WIDE
    for left_out in ((), spare):
        kept = [place for place in filled if names[place] not in left_out]
        table = _table([names[n] for n in kept], [[row[n] for n in kept] for row in rows])
        width = Measurement.get(console, console.options.update_width(WIDE), table).maximum
        if width <= room:
            table.title = title or None
            before = console.width
            console.width = max(width, before)
            console.print(table)
            console.width = before
            return
    if title:
        say(console, f"{title}:")
    for row in rows:
        say(console, "; ".join(f"{names[place]}: {row[place]}" for place in filled))


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for place, name in enumerate(names):
        pieces = (*name.split(), *(row[place] for row in rows))
        header = textwrap.fill(name, max(map(len, pieces), default=1))
        table.add_column(escape(header), no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inside) for inside in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

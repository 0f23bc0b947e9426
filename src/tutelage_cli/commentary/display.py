"""Progress of a commentary's learning: a bar on a terminal, lines in a pipe."""

from rich.console import Console

from tutelage_cli.terminal import Pace, clock, listed, progress_bar, say

MAX_LINES = 10
"""lines in a pipe, about"""
REPORT_EVERY = 30.0
"""seconds after which a finished episode is printed in any case"""


class Episodes:
    """Context manager that shows the progress of episodes."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.total = total
        self.losses: list[float] = []
        """held-out losses of the finished episodes"""
        self._pace = Pace()
        self._first: int | None = None
        self._reported = 0.0
        self._bar = progress_bar(console, "episodes")
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> "Episodes":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, number: int, loss: float) -> None:
        """Show a finished episode."""
        self.losses.append(loss)
        first = self._first = number if self._first is None else self._first
        left = self._pace.left(number - first + 1, self.total - first + 1)
        progress = listed(f"{clock(self._pace.seconds)} so far", left)
        if self.console.is_terminal:
            text = f"held-out loss {loss:.4f}; {progress}"
            self._bar.update(self._task, completed=number, description=text)
            return
        every = max(1, self.total // MAX_LINES)
        late = self._pace.seconds - self._reported > REPORT_EVERY
        if late or number in (1, self.total) or number % every == 0:
            self._reported = self._pace.seconds
            line = f"episode {number} of {self.total}: held-out loss {loss:.4f}"
            say(self.console, listed(line, progress))

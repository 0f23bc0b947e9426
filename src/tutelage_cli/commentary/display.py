"""What a person sees while a commentary is learnt: a bar on a terminal, lines in a pipe."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from tutelage_cli.terminal import Pace, clock, listed, say

TOLD = 10
"""rounds that are told of in a pipe, about"""
TOLD_EVERY = 30.0
"""seconds after which a round is told of in any case"""


class Rounds:
    """Shows how far learning is, while it is entered.

    Args:
        console: Where to.
        total: Rounds there are.
    """

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.total = total
        self.losses: list[float] = []
        """held-out losses of the rounds that were told of"""
        self._pace = Pace()
        self._first: int | None = None
        self._told = 0.0
        columns = (TextColumn("rounds"), BarColumn(bar_width=20), MofNCompleteColumn())
        told = TextColumn("{task.description}", markup=False)
        self._bar = Progress(*columns, told, console=console)
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> "Rounds":
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.console.is_terminal:
            self._bar.stop()

    def tell(self, number: int, loss: float) -> None:
        """Tell of a finished round."""
        self.losses.append(loss)
        first = self._first = number if self._first is None else self._first
        left = self._pace.left(number - first + 1, self.total - first + 1)
        far = listed(f"{clock(self._pace.seconds)} so far", left)
        if self.console.is_terminal:
            said = f"held-out loss {loss:.4f}; {far}"
            self._bar.update(self._task, completed=number, description=said)
            return
        every = max(1, self.total // TOLD)
        late = self._pace.seconds - self._told > TOLD_EVERY
        if late or number in (1, self.total) or number % every == 0:
            self._told = self._pace.seconds
            line = f"round {number} of {self.total}: held-out loss {loss:.4f}"
            say(self.console, listed(line, far))

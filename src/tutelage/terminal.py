"""How a command speaks: a result on stdout, progress beside it, or one JSON document."""

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

IN_A_PIPE = 140
"""columns of a table where no terminal says how wide it is"""


@dataclass(frozen=True)
class Speech:
    """What a command prints, and where."""

    quiet: bool = False
    """Print the result alone, without progress."""

    json: bool = False
    """Print the result as one JSON document on stdout; progress goes to stderr."""

    def progress(self) -> Console:
        """Where to say what is being done.

        Returns:
            Standard error where stdout is for JSON; a console that says nothing where quiet.
        """
        return Console(stderr=self.json, quiet=self.quiet)

    def result(self) -> Console:
        """Where to say what came of it.

        Returns:
            A console on stdout, which says nothing where JSON says it all.
        """
        wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
        return Console(quiet=self.json, width=IN_A_PIPE if wide else None)

    def document(self, content: Mapping[str, Any]) -> None:
        """Print the result as JSON, where that was asked for.

        Args:
            content: Plain values; a number that is not finite becomes null.
        """
        if self.json:
            text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write(f"{text}\n")


class Pace:
    """How long still, by how long it took so far; time that others had the machine counts."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def left(self, done: int | float, total: int | float) -> str:
        """How long still, in words.

        Args:
            done: What was done since it began.
            total: What was to be done when it began.

        Returns:
            Such as ``about 1:10 left``; nothing before something is done, or when all is.
        """
        if not 0 < done < total:
            return ""
        return f"about {clock(self.seconds * (total - done) / done)} left"


def clock(seconds: float) -> str:
    """A duration as on a clock.

    Args:
        seconds: At least 0.

    Returns:
        ``0:40``, ``12:05`` or ``1:02:03``.
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def listed(*parts: str) -> str:
    """Parts of a line, without those that are empty.

    Args:
        *parts: Texts.

    Returns:
        Them, between semicolons.
    """
    return "; ".join(part for part in parts if part)


def say(console: Console, text: str) -> None:
    """Print a line as it is, however wide: without markup, colours or breaks.

    Args:
        console: Where to.
        text: The line.
    """
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inside) for inside in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

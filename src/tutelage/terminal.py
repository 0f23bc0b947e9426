"""How a command speaks: a result on stdout, progress beside it, or one JSON document."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console


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
        return Console(quiet=self.json)

    def document(self, content: Mapping[str, Any]) -> None:
        """Print the result as JSON, where that was asked for.

        Args:
            content: Plain values; a number that is not finite becomes null.
        """
        if self.json:
            text = json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
            sys.stdout.write(f"{text}\n")


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

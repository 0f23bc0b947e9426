"""What becomes of a situation, and which errors have a name."""

import linecache
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import tutelage
from tutelage.errors import MissingExtraError, UnsupportedStudentError, UsageError

HOME = str(Path(tutelage.__file__).parent)
Word = Literal["compared", "refused", "failed", "unsettled", "untrainable"]


class Outcome(NamedTuple):
    """What became of a situation."""

    word: Word
    """compared: as the oracle says; refused: by name; unsettled: the oracle does not know;
    untrainable: plain torch refuses it, too"""
    about: str = ""
    """of a failure its kind; of a refusal its reason"""
    detail: str = ""


class Reason(NamedTuple):
    """A refusal that is right."""

    says: str
    """part of the message"""
    when: str = ""
    """part of the situation's spec; several, of which one is enough, divided by |"""


def is_named(error: BaseException) -> bool:
    """Whether an error is the project's own, in one line."""
    if "\n" in str(error).strip() or not str(error):
        return False
    if isinstance(error, UsageError | UnsupportedStudentError | MissingExtraError):
        return True
    if not isinstance(error, ValueError | FloatingPointError):
        return False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0)
    return frame.filename.startswith(HOME) and line.strip().startswith("raise ")


def refusal(error: Exception, spec: str, reasons: Sequence[Reason]) -> Outcome:
    """The outcome of an error that something has raised."""
    kind, text = type(error).__name__, str(error).strip()
    if not is_named(error):
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if f.filename.startswith(HOME)]
        at = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
        return Outcome("failed", f"raw {kind}", f"{text[:160]}{at}")
    for reason in reasons:
        if reason.says in text and any(part in spec for part in reason.when.split("|")):
            return Outcome("refused", reason.says, text[:200])
    return Outcome("failed", "refused without a known reason", f"{kind}: {text[:200]}")

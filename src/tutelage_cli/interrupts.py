"""SIGTERM ends a command as Ctrl-C does."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

ENDING = (signal.SIGINT, signal.SIGTERM)
"""signals that end a command in good order: Ctrl-C, and that of ``kill`` and of schedulers"""


@contextlib.contextmanager
def handling(handler: Callable[..., object] | signal.Handlers) -> Iterator[None]:
    """Handle both signals with a function until the block ends; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def raise_interrupt(*_: object) -> None:
    """Raise ``KeyboardInterrupt``: a handler of signals."""
    raise KeyboardInterrupt

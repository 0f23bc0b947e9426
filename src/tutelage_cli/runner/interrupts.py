"""SIGTERM ends a command as Ctrl-C does."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker

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


@contextlib.contextmanager
def delayed() -> Iterator[None]:
    """Deliver both signals when the block ends; processes started in it never get them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # where it starts later, it lifts the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def raise_interrupt(*_: object) -> None:
    """Raise ``KeyboardInterrupt``: a handler of signals."""
    raise KeyboardInterrupt

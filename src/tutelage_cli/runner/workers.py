"""Worker processes that keep what they have loaded, and signals that end a command."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from tutelage.errors import UsageError

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


@contextmanager
def started_workers(n_jobs: int, **options: Any) -> Iterator[Any]:
    """A ``joblib.Parallel`` whose workers run; signals that end a command pass them by."""
    import joblib

    parallel = joblib.Parallel(n_jobs=n_jobs, initializer=keep_loaded, **options)
    with delayed():  # workers inherit the mask: an interrupt is for the command's own process
        parallel.__enter__()
        if n_jobs > 1:
            list(parallel(joblib.delayed(int)() for _ in range(n_jobs)))
    try:
        yield parallel
    finally:
        parallel.__exit__(None, None, None)


def keep_loaded() -> None:
    """Keep this joblib worker alive however much its memory has grown.

    Where psutil is installed, a worker exits once it has grown by 300 MB, which torch and a
    data set exceed, and its replacement loads both again. An initialiser for
    ``joblib.Parallel``.
    """
    executor = sys.modules.get("joblib.externals.loky.process_executor")
    if executor is not None:
        setattr(executor, "_USE_PSUTIL", False)  # noqa: B010 - it has no public switch


def process_count() -> int:
    """How many processes torchrun started; 1 without it."""
    number = os.environ.get("WORLD_SIZE", "")
    return int(number) if number.isdigit() else 1


def process_rank() -> int:
    """Which of torchrun's processes this one is, from 0."""
    return int(os.environ.get("RANK", "0")) if process_count() > 1 else 0


def refuse_several_processes() -> None:
    """Refuse to be one of torchrun's processes, which would all write the same files."""
    if process_count() > 1:
        raise UsageError(
            f"torchrun started this command {process_count()} times (WORLD_SIZE), and every "
            "process would write the same files: start it once, without torchrun. Only "
            "tutelage train trains a student on several processes."
        )

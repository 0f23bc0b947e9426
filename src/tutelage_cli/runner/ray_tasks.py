"""Calls as tasks of a Ray cluster, which start again on another node where theirs dies."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tutelage.errors import MissingExtraError, UsageError
from tutelage_cli.runner.run_folder import SETTINGS

ADDRESS = "RAY_ADDRESS"
"""environment variable: Ray's own, the address of a cluster"""
RESTARTS = 3
"""how often a call starts again whose process died"""
POLL_EVERY = 1.0
"""seconds between two checks whether to stop"""
CONNECT = 10.0
"""seconds in which a cluster has to answer"""
GRACE = 60.0
"""seconds in which running calls have to end once they are to stop"""


@dataclass(frozen=True)
class WorkerFailure:
    """In place of a result: the process of a call died in every attempt."""

    error: str
    """the name of Ray's error for it"""


class RayTasks:
    """Calls of functions as tasks of a Ray cluster, each with a CPU, and a GPU on cuda."""

    def __init__(self, ray: Any, device: str) -> None:
        self._ray = ray
        self._needs = {"num_cpus": 1, "num_gpus": int(device == "cuda")}
        nodes = [node for node in ray.nodes() if node["Alive"] and self._slots_of(node)]
        self._nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in nodes}
        self.slots = sum(map(self._slots_of, nodes))
        """calls that the cluster runs at the same time"""
        if not self.slots:
            what, way = ("GPU", ", or give --device cpu") if device == "cuda" else ("CPU", "")
            raise UsageError(
                f"--backend ray: no node of the Ray cluster offers a {what}. Add one that "
                f"does (ray start --address){way}."
            )

    def _slots_of(self, node: dict[str, Any]) -> int:
        has, needs = node["Resources"], self._needs
        slots = int(has.get("CPU", 0))
        return min(slots, int(has.get("GPU", 0))) if needs["num_gpus"] else slots

    def share(self, value: Any) -> Any:
        """Put an argument of many calls into the object store: once for each node."""
        return self._ray.put(value)

    def results(
        self,
        function: Callable[..., Any],
        calls: Sequence[Sequence[Any]],
        at_once: int | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> list[Any]:
        """What a function returns for each tuple of arguments, or ``WorkerFailure``.

        A call that raises ends all others. None is the result of those that had not begun
        when they were to stop, or did not end within ``GRACE`` seconds.
        """
        task = self._ray.remote(function).options(max_retries=RESTARTS, **self._needs)
        left, running = deque(range(len(calls))), dict[Any, int]()
        answers: list[Any] = [None] * len(calls)
        end = float("inf")
        try:
            while (left or running) and time.monotonic() < end:
                while left and len(running) < (at_once or len(calls)):
                    place = left.popleft()
                    running[task.remote(*calls[place])] = place
                for done in self._ray.wait(list(running), timeout=POLL_EVERY)[0]:
                    answers[running.pop(done)] = self._result(done)
                if end == float("inf") and stopped():
                    left.clear()
                    end = time.monotonic() + GRACE
        finally:
            for unfinished in running:
                self._ray.cancel(unfinished, force=True)
        return answers

    def _result(self, task: Any) -> Any:
        errors = self._ray.exceptions
        died = (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError)
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            cause = error.cause  # the call's own exception, where it could be pickled
            raise cause if isinstance(cause, Exception) else error from error
        except died as error:
            return WorkerFailure(type(error).__name__)
        except errors.RayError as error:  # an exception that cannot be pickled, a full disk
            raise UsageError(f"--backend ray: {last_line(error)}") from error

    def check_folder(self, folder: Path) -> None:
        """Refuse a folder that a node cannot write to, or that is another one there."""
        mark = folder / f"cluster-check-{uuid.uuid4().hex}"
        strategies = import_module("ray.util.scheduling_strategies")
        task = self._ray.remote(_problem_with)
        mark.touch()
        try:
            checks = {}
            for node, address in self._nodes.items():
                there = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
                on_node = task.options(num_cpus=0, scheduling_strategy=there)
                checks[on_node.remote(mark)] = address
            for check, address in checks.items():
                self._check_node(check, address, folder)
        finally:
            mark.unlink(missing_ok=True)

    def _check_node(self, check: Any, address: str, folder: Path) -> None:
        try:
            problem = self._ray.get(check)
        except self._ray.exceptions.RayTaskError as error:  # Ray could not import the check
            raise UsageError(
                f"The node {address} of the Ray cluster cannot run tutelage "
                f"({last_line(error)}). Install the same release on every node."
            ) from error
        except self._ray.exceptions.RayError:
            return  # it has left the cluster since
        if problem:
            raise UsageError(not_shared(folder, address, problem))


def not_shared(folder: Path, node: str, problem: str = "it is not there") -> str:
    """The message about a run's folder that a node cannot work in."""
    return (
        f"The node {node} of the Ray cluster cannot use the run's folder {folder}: {problem}. "
        "It has to be on a file system that all nodes share: start a run there with --out, or "
        f"go on with this one without the cluster: tutelage train --resume {folder}"
    )


def require_run(run: Path) -> None:
    """Refuse to work where the run's folder is not; nodes may join while it is trained."""
    if not (run / SETTINGS).exists():
        raise UsageError(not_shared(run, socket.gethostname()))


def _problem_with(mark: Path) -> str:
    # runs on a node
    try:
        if not mark.exists():
            return "it is not there"
        own = mark.with_name(f"{mark.name}-{uuid.uuid4().hex}")
        own.touch()
        own.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def last_line(error: BaseException) -> str:
    """The end of an error's message of many lines; its type, where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1].strip()


@contextlib.contextmanager
def ray_tasks(device: str) -> Iterator[RayTasks]:
    """Tasks on the cluster of ``RAY_ADDRESS`` or of this machine, else on a new local one."""
    # Ray's default is to start a call without end that takes too much memory
    os.environ.setdefault("RAY_task_oom_retries", str(RESTARTS))
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise MissingExtraError("ray", "cluster") from error
    ours = not ray.is_initialized()
    if ours:
        _connect(ray)
    try:
        yield RayTasks(ray, device)
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any) -> None:
    address, before = os.environ.get(ADDRESS, ""), signal.getsignal(signal.SIGTERM)
    try:
        _require_listener(address)
        ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"--backend ray: no connection to the Ray cluster {address or 'of this machine'} "
            f"({last_line(error)}). Start one with ray start --head, with the same release of "
            f"Ray and the same RAY_AUTH_MODE as here, or unset {ADDRESS} for a local one."
        ) from error
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray puts its own in its place
    module = sys.modules.get("ray._private.worker")
    if module is not None:  # it prints on stdout, where the result belongs, who died
        setattr(module, "_worker_logs_enabled", False)  # noqa: B010 - there is no public switch


def _require_listener(address: str) -> None:
    # Ray itself waits for minutes for an address at which nothing listens
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()

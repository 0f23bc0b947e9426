"""What every test shares: one torch thread, a cache of its own, and the real data sets."""

import functools
import gc
import inspect
import os
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from tests import type_checks

torch.set_num_threads(1)
type_checks.cheaper()


@pytest.fixture(scope="session", autouse=True)
def _cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep decoded data sets out of the user's cache folder, and between tests.

    All of xdist's workers share them: to decode CIFAR-10 takes a core ten seconds.
    """
    home = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        home = home.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _memory_of_students_in_passing() -> Iterator[None]:
    """Without a collection of the whole test session's garbage before each student.

    It takes a third of a second, for which the students of most tests are trained; only the
    figures of memory depend on it.
    """
    from tutelage_cli.train import memory as footprint  # not before types are checked on import

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footprint, "collect", lambda: 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _seconds_of_few_steps() -> Iterator[None]:
    """Before training, one teacher step of each arm is measured in place of four.

    Only how well the time left is foreseen depends on it.
    """
    from tutelage_cli.train import step_seconds  # not before types are checked on import

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_seconds, "ENOUGH", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _sources_read_once() -> Iterator[None]:
    """Each class's source is parsed once: the command line describes its flags by it."""
    read = inspect.getsource
    of_classes = functools.cache(read)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            inspect, "getsource", lambda of: (of_classes if inspect.isclass(of) else read)(of)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _without_waiting_for_the_disk() -> Iterator[None]:
    """Nothing is forced to the disk: a killed process loses nothing by it, a power cut would.

    ``fstat`` refuses what is no open file, as ``fsync`` does.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


REPEATED = pytest.StashKey[set[pytest.Item]]()
"""cases whose types need no check, as those of earlier cases are checked"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Check types once for each value of a parameter: checks take half of a training step."""
    off = item in item.session.stash[REPEATED]
    type_checks.count_from_zero()
    with type_checks.unchecked() if off else nullcontext():
        return (yield)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let garbage collections, which memory tests wait for, pass over all that is imported."""
    session.stash[REPEATED] = type_checks.repeated(session.items)
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])  # the first imports torch._dynamo
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need real data sets: those that take ``real_data``, and no others."""
    for item in items:
        if isinstance(item, pytest.Function) and "real_data" in item.fixturenames:
            item.add_marker("needs_data")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder named by TUTELAGE_DATA; the test is skipped where there is none."""
    folder = os.environ.get("TUTELAGE_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TUTELAGE_DATA does not name a folder of data sets")
    return Path(folder)

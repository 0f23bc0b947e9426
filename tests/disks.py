"""Disks that are full and folders that are closed, for tests of what is told then."""

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path

_VERSION, _DAC_OVERRIDE = 0x20080522, 1


@contextlib.contextmanager
def full_disk(room: int = 0) -> Iterator[None]:
    """No file can grow beyond ``room`` bytes inside, as on a disk that is full by then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Nothing can be written in a folder or below it, not by root either."""
    places = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for place in places:
        place.chmod(0o555)
    try:
        with _unprivileged() if os.geteuid() == 0 else contextlib.nullcontext():
            yield
    finally:
        for place in places:
            place.chmod(0o755)


class _Sets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


@contextlib.contextmanager
def _unprivileged() -> Iterator[None]:
    # root may write where nobody may: this one right is laid down for a while
    libc, header = ctypes.CDLL(None, use_errno=True), (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (_Sets * 2)()
    assert libc.capget(header, sets) == 0, ctypes.get_errno()
    before = sets[0].effective
    sets[0].effective = before & ~(1 << _DAC_OVERRIDE)
    assert libc.capset(header, sets) == 0, ctypes.get_errno()
    try:
        yield
    finally:
        sets[0].effective = before
        assert libc.capset(header, sets) == 0, ctypes.get_errno()

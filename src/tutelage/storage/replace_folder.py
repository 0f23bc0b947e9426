"""Atomic replacement of folders."""

import ctypes
import os
import shutil
from pathlib import Path

from tutelage.storage.atomic_files import leftovers

_HERE = -100
"""AT_FDCWD: paths are relative to the working folder"""
_SWAP = 2
"""RENAME_EXCHANGE"""


def replace_folder(fresh: Path, folder: Path) -> None:
    """Replace a folder by another one atomically.

    Where the system cannot swap two names (not Linux, or some network drives) there is a
    moment with neither; ``restore_folder`` mends what is killed just then.

    Note: raises ``OSError`` where it cannot; the old folder is then in its place.
    """
    if not folder.exists():
        fresh.rename(folder)
        return
    if swap_names(fresh, folder):
        shutil.rmtree(fresh, ignore_errors=True)
        return
    old = fresh.with_name(f"{fresh.name}.old")
    try:
        folder.rename(old)
        fresh.rename(folder)
    finally:
        if not folder.exists() and old.exists():
            old.rename(folder)
        shutil.rmtree(old, ignore_errors=True)


def swap_names(one: Path, other: Path) -> bool:
    """Swap two names atomically, where the system can."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _SWAP) == 0


def fresh_folder(folder: Path) -> Path:
    """Make a temporary folder beside another; leftovers of dead processes are removed."""
    restore_folder(folder)
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    return fresh


def restore_folder(folder: Path) -> None:
    """Undo a ``replace_folder`` that was killed."""
    for left in filter(Path.is_dir, leftovers(folder)):
        if left.suffix == ".old" and not folder.exists():
            left.rename(folder)
        else:
            shutil.rmtree(left, ignore_errors=True)

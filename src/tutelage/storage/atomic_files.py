"""Files and folders that are whole or absent, whatever interrupts the writing."""

import ctypes
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tutelage.errors import in_one_line

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NUMBERED = re.compile(r"\[Errno (\d+)\]", re.IGNORECASE)
_HERE = -100
"""AT_FDCWD: paths are relative to the working folder"""
_SWAP = 2
"""RENAME_EXCHANGE"""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content atomically, flushed to disk.

    Note: raises ``OSError`` as ``atomic_path`` does.
    """
    with atomic_path(path) as part, part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path that replaces ``path`` when the block ends.

    What dead processes left of the same file is removed first.

    Note: raises ``OSError`` if it cannot be written, or there is something at ``path`` that is
    no regular file; the error names ``path``, where everything stays as it was.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with name_in_error(path):
        require_regular(path)
        try:
            for left in leftovers(path):
                left.unlink(missing_ok=True)
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def name_in_error(path: Path) -> Iterator[None]:
    """Name ``path`` in errors of the operating system."""
    try:
        yield
    except OSError as error:
        if error.filename == str(path):
            raise
        text = in_one_line(error)
        found = _NUMBERED.match(text)  # as pyarrow has it
        number = error.errno or (int(found[1]) if found else 0)
        reason = os.strerror(number) if number else text
        raise OSError(number, reason, str(path)) from error


def require_regular(path: Path) -> None:
    """Raise if a path is not a regular file."""
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "no regular file")
        reason = f"There is {what}, and only a regular file is replaced"
        raise FileExistsError(errno.EEXIST, reason, str(path))


def leftovers(path: Path) -> list[Path]:
    """Temporary files that dead processes left beside a path."""
    start = f".{path.name}."
    found = [other for other in path.parent.iterdir() if other.name.startswith(start)]
    return sorted((o for o in found if _is_left(o.name.removeprefix(start))), reverse=True)


def _is_left(end: str) -> bool:
    number = end.removesuffix(".old")
    if not number.isdecimal():
        return False
    if int(number) == os.getpid():
        return True  # an earlier attempt, or a dead process that had our number
    try:
        os.kill(int(number), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass  # it is another user's
    return False


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

"""Files written atomically, in place of regular files only."""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NUMBERED = re.compile(r"\[Errno (\d+)\]", re.IGNORECASE)


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
        text = " ".join(str(error).split())
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

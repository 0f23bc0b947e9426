"""Large arrays in memory-mapped files, of which only the rows in use are copied to memory."""

import math
import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from tutelage.errors import UsageError
from tutelage.storage.cache_folder import cache_folder

LARGE = 256 * 2**20
"""bytes; an array of more is in a file"""
PREFIX = "decoded-"
"""begins the names of these files"""
_CHUNK_BYTES = 16 * 2**20
"""bytes in a part of ``chunks``"""


class MappedFile:
    """An array that is a file of its own; pickled as the file's name."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: str) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        self._map: mmap.mmap | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedFile, (self.path, self.shape, self.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Int64[Tensor, "k"]) -> Tensor:
        mapped = self.map()
        array = np.frombuffer(mapped, self.dtype).reshape(self.shape)
        found = torch.from_numpy(array.take(rows.numpy(), axis=0))
        if hasattr(mapped, "madvise"):  # so that what was read does not count as memory in use
            mapped.madvise(mmap.MADV_DONTNEED)
        return found

    def map(self) -> mmap.mmap:
        """The bytes of the file, which is in use from then on."""
        if self._map is None:
            size = math.prod(self.shape) * np.dtype(self.dtype).itemsize
            try:
                with self.path.open("rb") as file:
                    _locked(file)
                    if os.fstat(file.fileno()).st_size != size:
                        raise OSError(f"not {size} bytes")
                    self._map = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            except OSError as error:
                raise UsageError(
                    f"{self.path}, the decoded data, cannot be read "
                    f"({error.strerror or error}). Start the command again, which decodes them "
                    "again; processes on several machines need a cache folder that all share "
                    "(XDG_CACHE_HOME)."
                ) from error
        return self._map

    def remove_at_exit(self) -> None:
        """Remove the file once nothing in this process refers to it; its forks leave it."""
        self._removal = weakref.finalize(self, _remove, self.path, os.getpid())

    def keep_as(self, path: Path) -> None:
        """Rename a file that would be removed at exit, and keep it."""
        self.path.replace(path)
        self._removal.detach()
        self.path = path


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class MappedRows:
    """N rows of large arrays; indexing copies rows to memory, as a tensor."""

    stores: tuple[MappedFile | Tensor, ...]
    """arrays of M rows in all"""
    indices: Int64[Tensor, "N"]
    """places of the N rows among the M"""
    row_shape: tuple[int, ...]
    """to which rows of the arrays are expanded"""
    dtype: torch.dtype

    @property
    def shape(self) -> torch.Size:
        """That of all rows as one tensor."""
        return torch.Size((len(self.indices), *self.row_shape))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int | slice | Tensor) -> Tensor:
        indices = self.indices[index]
        wanted = indices.reshape(-1)
        if len(self.stores) == 1:
            found = self.stores[0][wanted].expand(-1, *self.row_shape).contiguous()
            return found.view(*indices.shape, *self.row_shape)
        found = torch.empty((len(wanted), *self.row_shape), dtype=self.dtype)
        first = 0
        for store in self.stores:
            here = ((wanted >= first) & (wanted < first + len(store))).nonzero()[:, 0]
            found[here] = store[wanted[here] - first]
            first += len(store)
        return found.view(*indices.shape, *self.row_shape)

    def __iter__(self) -> Iterator[Tensor]:
        for part in chunks(self):
            yield from part

    def split(self, size: int) -> Iterator[Tensor]:
        """The rows in order, so many at a time."""
        for part in torch.arange(len(self)).split(size):
            yield self[part]


Rows: TypeAlias = Any
"""N rows of an array: a tensor or ``MappedRows``, which are indexed and split alike"""


def chunks(rows: Rows) -> Iterator[Tensor]:
    """The rows in order, as tensors of a few megabytes."""
    size = math.prod(rows.shape[1:]) * rows.dtype.itemsize
    yield from rows.split(max(1, _CHUNK_BYTES // max(size, 1)))


def chosen(rows: Rows, index: Tensor) -> Rows:
    """Some of the rows, which stay where they are if they are not in memory."""
    if isinstance(rows, Tensor):
        return rows[index]
    return MappedRows(rows.stores, rows.indices[index], rows.row_shape, rows.dtype)


def concatenated(first: Rows, second: Rows) -> Rows:
    """Rows and, after them, others of the same shape and type."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return torch.cat([first, second])
    one, other = _mapped(first), _mapped(second)
    indices = torch.cat([one.indices, other.indices + sum(map(len, one.stores))])
    return MappedRows(one.stores + other.stores, indices, one.row_shape, one.dtype)


def with_channels(images: Rows, channels: int) -> Rows:
    """Images [N, C, H, W]; a single channel is repeated."""
    if isinstance(images, Tensor):
        return images.expand(-1, channels, -1, -1).contiguous()
    return MappedRows(
        images.stores, images.indices, (channels, *images.row_shape[1:]), images.dtype
    )


def in_memory(rows: Rows) -> Tensor:
    """All rows as one tensor."""
    return rows if isinstance(rows, Tensor) else rows[:]


def _mapped(rows: Rows) -> MappedRows:
    if isinstance(rows, MappedRows):
        return rows
    return MappedRows((rows,), torch.arange(len(rows)), tuple(rows.shape[1:]), rows.dtype)


class ArrayWriter:
    """An array of at most ``count`` rows, written in order: to memory, or a file if ``LARGE``.

    The file is in the cache folder, or where that has no room in the folder of temporary files.
    """

    def __init__(self, count: int, row_shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        self.row_shape, self.dtype, self.written = row_shape, np.dtype(dtype), 0
        self._count, self._size = count, count * math.prod(row_shape) * self.dtype.itemsize
        self._file: IO[bytes] | None = None
        self._array = np.empty((0, *row_shape), dtype)
        if self._size <= LARGE:
            self._array = np.empty((count, *row_shape), dtype)
            return
        self._stored = MappedFile(_new_file(self._size), (0, *row_shape), self.dtype.str)
        self._stored.remove_at_exit()
        self._file = self._stored.path.open("wb")
        weakref.finalize(self, self._file.close)
        _locked(self._file)

    def append(self, rows: np.ndarray) -> None:
        """Write [k, ...] rows, expanded to the shape of a row."""
        start, self.written = self.written, self.written + len(rows)
        if self._file is None:
            self._array[start : self.written] = rows
            return
        wide = np.broadcast_to(rows, (len(rows), *self.row_shape))
        try:
            self._file.write(np.ascontiguousarray(wide, self.dtype).data)
        except OSError as error:
            raise self._no_room(error) from error

    def widened(self, row_shape: tuple[int, ...]) -> "ArrayWriter":
        """The same with rows expanded to another shape."""
        wider = ArrayWriter(self._count, row_shape, self.dtype.type)
        for part in chunks(self.finish()):
            wider.append(part.numpy())
        return wider

    def finish(self) -> Rows:
        """The rows written."""
        if self._file is None:
            return torch.from_numpy(self._array[: self.written])
        self._stored.shape = (self.written, *self.row_shape)
        try:
            self._file.flush()
        except OSError as error:
            raise self._no_room(error) from error
        self._stored.map()  # it stays in use
        self._file.close()
        dtype = self._stored[torch.arange(0)].dtype
        return MappedRows((self._stored,), torch.arange(self.written), self.row_shape, dtype)

    def _no_room(self, error: OSError) -> UsageError:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._stored.path.unlink(missing_ok=True)
        return _no_room(self._size, self._stored.path.parent, error.strerror or str(error))


def _new_file(size: int) -> Path:
    # created empty
    folders = [Path(tempfile.gettempdir())]
    with suppress(RuntimeError):  # the user has no home
        folders.insert(0, cache_folder())
    for folder in folders:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(folder).free > size:
                number, name = tempfile.mkstemp(".tmp", PREFIX, folder)
                os.close(number)
                return Path(name)
    raise _no_room(size, folders[0], "too little space")


def _no_room(size: int, folder: Path, reason: str) -> UsageError:
    return UsageError(
        f"the decoded data are up to {size / 1e9:.1f} GB, which cannot be written to {folder} "
        f"({reason}): make room there, or name a folder with room by XDG_CACHE_HOME."
    )


def in_use(path: Path) -> bool:
    """Whether a process maps or writes a file, where the system knows."""
    try:
        with path.open("rb") as file:
            return not _locked(file, "LOCK_EX")
    except OSError:
        return False


def _locked(file: IO[bytes], kind: str = "LOCK_SH") -> bool:
    # until the file and its maps, which share the lock, are closed
    try:
        fcntl: Any = import_module("fcntl")
        fcntl.flock(file, getattr(fcntl, kind) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, or a file system without locks
        return True
    return True

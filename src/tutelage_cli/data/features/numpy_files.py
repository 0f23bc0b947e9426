"""Arrays of .npy and .npz files; nothing in them is unpickled."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tutelage.errors import UsageError


def read_npy(file: Path) -> np.ndarray:
    """The array of a ``.npy`` file."""
    found = _guarded(file, f"{file} cannot be read as a .npy file of numbers", _loaded)
    if isinstance(found, np.ndarray):
        return found
    raise UsageError(f"{file} holds several arrays, as a .npz file does: rename it to .npz.")


class Arrays:
    """The arrays of a ``.npz`` file, each read when it is accessed.

    Args:
        file: The file.

    Raises:
        UsageError: If it cannot be opened.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._failed = f"{file} cannot be read as a .npz file of arrays"
        stored = _guarded(file, self._failed, _loaded)
        if isinstance(stored, np.ndarray):
            raise UsageError(f"{file} holds one array, as a .npy file does: rename it to .npy.")
        with stored:
            self.names: Sequence[str] = stored.files

    def __getitem__(self, name: str) -> np.ndarray:
        def read(file: Path) -> np.ndarray:
            with _loaded(file) as stored:
                return stored[name]

        return _guarded(self.file, f"array '{name}' of {self._failed}", read)


def _loaded(file: Path) -> Any:
    return np.load(file, allow_pickle=False)


def _guarded(file: Path, failed: str, read: Callable[[Path], Any]) -> Any:
    try:
        return read(file)
    except Exception as error:  # a header may be any text, a zip any bytes
        reason = " ".join(str(error).split()) or type(error).__name__
        if "pickle" in reason:
            reason = "it holds Python objects, which are never unpickled: save numbers or words"
        raise UsageError(f"{failed} ({reason:.200}).") from error

"""Checkpoints: one file, read without running code."""

import hashlib
import io
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tutelage.errors import UsageError, in_one_line
from tutelage.storage.atomic_files import write_atomically

DIGEST = "digest"
"""where a state keeps the checksum of another of its parts"""
DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
)
"""what reading a damaged file, or loading what it held, may raise"""


def save_checkpoint(file: Path, state: Mapping[str, Any]) -> None:
    """Save a checkpoint atomically.

    Note: raises ``OSError``, which names the file, if it cannot be written; the old one stays.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.save(dict(state), content)
    write_atomically(file, content.getvalue())


def load_checkpoint(file: Path, device: torch.device) -> dict[str, Any]:
    """Load a checkpoint and verify its checksums.

    Nothing is unpickled but tensors and plain values.
    """
    content = io.BytesIO(file.read_bytes())
    with zipfile.ZipFile(content) as parts:
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts.infolist()):
            raise ValueError("it is compressed, which torch's files are not")
        wrong = parts.testzip()
    if wrong is not None:
        raise ValueError(f"the checksum of {wrong} is wrong")
    content.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = torch.load(content, weights_only=True, map_location=device)
    if not isinstance(state, dict):
        raise ValueError(f"it holds a {type(state).__name__}")
    return state


def with_checksum(part: str, content: Any) -> dict[str, Any]:
    """A part of a state with its checksum."""
    return {part: content, DIGEST: digest(content)}


def check_checksum(part: str, state: Mapping[str, Any]) -> Any:
    """Verify and return a part of ``with_checksum``."""
    content = state[part]
    if state.get(DIGEST, found := digest(content)) != found:
        raise ValueError(f"its part '{part}' is not what was saved")
    return content


def digest(content: Any) -> str:
    """A checksum of plain values and tensors."""
    made = hashlib.blake2b(digest_size=16)
    _add(made, content)
    return made.hexdigest()


def _add(made: "hashlib.blake2b", content: Any) -> None:
    if isinstance(content, Tensor):
        made.update(f"tensor {content.dtype} {list(content.shape)}\n".encode())
        flat = content.detach().cpu().contiguous().reshape(-1)
        made.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        return
    if isinstance(content, Mapping):
        made.update(f"mapping {len(content)}\n".encode())
        content = [part for pair in content.items() for part in pair]
    if isinstance(content, list | tuple):
        made.update(f"list {len(content)}\n".encode())
        for part in content:
            _add(made, part)
    else:
        text = f"{type(content).__name__} {content!r}\n"
        made.update(text.encode(errors="surrogatepass"))


@contextmanager
def name_damaged_file(file: Path, remedy: str, *, what: str = "is damaged") -> Iterator[None]:
    """Turn errors of reading a damaged or missing file into a ``UsageError``.

    Only reading goes inside: what is raised by code that runs later, such as a student's, is
    the fault of that code, and is shown as it is.
    """
    try:
        yield
    except (*DAMAGE, FileNotFoundError) as error:
        if isinstance(error, UsageError | torch.OutOfMemoryError):
            raise
        if isinstance(error, FileNotFoundError) and error.filename != str(file):
            raise
        raise UsageError(f"{file} {what}{_why(error)}. {remedy}") from error


def _why(error: BaseException) -> str:
    if isinstance(error, pickle.UnpicklingError):  # torch's text says how to switch safety off
        return ", or holds more than tensors and plain values, which is never loaded"
    reason = in_one_line(error)[:200]
    return f" ({reason})" if reason else ""

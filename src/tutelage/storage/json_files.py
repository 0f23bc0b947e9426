"""JSON files written atomically, and messages about failed writes."""

import errno
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tutelage.errors import in_one_line
from tutelage.storage.atomic_files import write_atomically

FULL, CLOSED = "Make room there", "Allow writing there"
"""what mends that something cannot be written"""
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), CLOSED),
}
PACKAGES = ("tutelage", "torch", "torchvision", "numpy", "datasets", "scikit-learn")


def write_error(error: OSError, place: Path | str, then: str) -> str:
    """The message of a failed write."""
    reason = error.strerror or in_one_line(error)
    remedy = REMEDIES.get(error.errno or 0, "Mend that")
    return f"{place} cannot be written: {reason}. {remedy}, {then}."


def write_json(path: Path, content: object) -> None:
    """Write a JSON file atomically."""
    write_atomically(path, as_json(content))


def as_json(content: object) -> bytes:
    """Plain values as the bytes of a JSON file."""
    return json.dumps(content, indent=2, ensure_ascii=False).encode()


def environment() -> dict[str, str]:
    """Versions of Python and packages, platform and CPU count."""
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    found["cpus"] = str(os.cpu_count())
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

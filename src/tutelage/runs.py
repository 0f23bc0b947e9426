"""A run on disk: a folder that is complete at every moment and belongs to one run only."""

import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tutelage.errors import UsageError

SETTINGS = "settings.json"
PACKAGES = ("tutelage", "torch", "torchvision", "numpy", "datasets", "scikit-learn")


def create_run(folder: Path, settings: Mapping[str, Any]) -> None:
    """Make the folder of a new run and write its settings and environment there.

    Args:
        folder: Where the run goes; made with its parents, and may exist if it is empty.
        settings: The run's settings as plain values.

    Raises:
        UsageError: If the folder holds something already, or cannot be made or written.
    """
    if (folder / SETTINGS).exists():
        raise UsageError(
            f"{folder} holds another run. Name a new folder with --out, or continue that run "
            f"with --resume {folder}"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} exists and holds something else. Name a new folder with --out."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "environment.json", environment())
        write_json(folder / SETTINGS, settings)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}. Name another folder with --out."
        ) from error


def run_settings(folder: Path) -> dict[str, Any]:
    """The settings of an existing run.

    Args:
        folder: The run's folder.

    Returns:
        The settings as plain values.

    Raises:
        UsageError: If there is no run there, or its settings cannot be read.
    """
    try:
        return json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise UsageError(
            f"{folder} holds no run that can be continued: {SETTINGS} is missing or damaged."
        ) from error


def free_folder(parent: Path, name: str) -> Path:
    """The first of ``name``, ``name-2``, ``name-3``, ... that does not exist.

    Args:
        parent: The folder to look in; need not exist.
        name: The wished name.

    Returns:
        A path that nothing is at.
    """
    candidate, number = parent / name, 2
    while candidate.exists():
        candidate, number = parent / f"{name}-{number}", number + 1
    return candidate


def write_json(path: Path, content: object) -> None:
    """Write a JSON file that is either the old one or the new one, never half of it.

    Args:
        path: The file.
        content: Plain values.
    """
    write_atomically(path, json.dumps(content, indent=2, ensure_ascii=False).encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content in one go.

    Args:
        path: The file; its folder must exist.
        content: The new content.

    Raises:
        OSError: If it cannot be written; the error names the file, whose old content stays.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def environment() -> dict[str, str]:
    """What the run was made with.

    Returns:
        Versions of Python and of the packages that matter, and the kind of machine.
    """
    found = {"python": sys.version.split()[0], "platform": platform.platform()}
    found["cpus"] = str(os.cpu_count())
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

"""A run on disk: a folder that is complete at every moment and belongs to one run only."""

import json
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tutelage.errors import UsageError

SETTINGS = "settings.json"
PACKAGES = ("tutelage", "torch", "torchvision", "numpy", "datasets", "scikit-learn")


def create_run(
    folder: Path, settings: Mapping[str, Any], facts: Mapping[str, str] | None = None
) -> None:
    """Make the folder of a new run and write its settings and environment there.

    Args:
        folder: Where the run goes; made with its parents, and may exist if it is empty.
        settings: The run's settings as plain values.
        facts: What else to keep with the environment; see ``stored_fact``.

    Raises:
        UsageError: If the folder holds something already, or cannot be made or written; nothing
            is left behind then.
    """
    refuse_taken(folder)
    new = not exists(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "environment.json", environment() | dict(facts or {}))
        write_json(folder / SETTINGS, settings)
    except OSError as error:
        if new and exists(folder):
            (folder / "environment.json").unlink(missing_ok=True)
            folder.rmdir()
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}. Name another folder with --out."
        ) from error


def refuse_taken(folder: Path) -> None:
    """Refuse a folder that a new run cannot have.

    Args:
        folder: Where the run is to go.

    Raises:
        UsageError: If it holds another run or something else.
    """
    if exists(folder / SETTINGS):
        raise UsageError(
            f"{folder} holds another run. Name a new folder with --out, or continue that run "
            f"with --resume {folder}"
        )
    if exists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} exists and holds something else. Name a new folder with --out."
        )


def exists(path: Path) -> bool:
    """Whether there is something at a path; no where the system cannot even look.

    Args:
        path: Any path, also one with too long a name.

    Returns:
        Whether there is.
    """
    try:
        return path.exists()
    except OSError:
        return False


def stored_fact(folder: Path, name: str) -> str | None:
    """A fact that was kept when the run began.

    Args:
        folder: The run's folder.
        name: The fact's name.

    Returns:
        The fact; None where there is none.
    """
    return json.loads((folder / "environment.json").read_text(encoding="utf-8")).get(name)


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
        stored = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{folder} holds no run that can be continued: {SETTINGS} is missing or damaged."
        ) from error
    if not isinstance(stored, dict):
        raise UsageError(f"{folder} holds no run that can be continued: {SETTINGS} is damaged.")
    return stored


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


def sweep(folder: Path) -> None:
    """Remove what killed writes have left behind.

    Args:
        folder: A run's folder, in which nothing is being written.
    """
    for left in list(folder.rglob(".*")):
        if left.is_dir() and left.name.startswith(".commentary"):
            shutil.rmtree(left)
        elif left.suffix.removeprefix(".").isdigit():
            left.unlink()


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

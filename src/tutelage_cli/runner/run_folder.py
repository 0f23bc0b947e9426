"""A run on disk: a folder that is consistent at every moment and belongs to one run."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutelage.errors import UsageError
from tutelage.storage.json_files import environment, write_error, write_json

SETTINGS, ENVIRONMENT = "settings.json", "environment.json"


def create_run(
    folder: Path, settings: Mapping[str, Any], facts: Mapping[str, str] | None = None
) -> None:
    """Make the folder of a new run and write its settings and environment there."""
    refuse_taken(folder)
    new = not exists(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / ENVIRONMENT, environment() | dict(facts or {}))
        write_json(folder / SETTINGS, settings)
    except OSError as error:
        if new and exists(folder):
            (folder / ENVIRONMENT).unlink(missing_ok=True)
            folder.rmdir()
        raise UsageError(
            write_error(error, folder, "or name another folder with --out")
        ) from error


def refuse_taken(folder: Path) -> None:
    """Refuse a folder that a new run cannot have."""
    if exists(folder / SETTINGS):
        raise UsageError(
            f"{folder} holds another run. Name a new folder with --out, or continue that run "
            f"with --resume {folder}"
        )
    if exists(folder) and not (folder.is_dir() and all(map(_of_a_start, folder.iterdir()))):
        raise UsageError(
            f"{folder} exists and holds something else. Name a new folder with --out."
        )


def _of_a_start(path: Path) -> bool:
    # what is there before the settings are, where a run was killed as it began
    return path.name.startswith((ENVIRONMENT, f".{ENVIRONMENT}.", f".{SETTINGS}."))


def exists(path: Path) -> bool:
    """Whether a path exists; False where the system refuses to say."""
    try:
        return path.exists()
    except OSError:
        return False


def run_facts(folder: Path) -> dict[str, Any]:
    """The facts that were kept when the run began."""
    return _read_json(folder, ENVIRONMENT)


def run_settings(folder: Path) -> dict[str, Any]:
    """The settings of an existing run."""
    return _read_json(folder, SETTINGS)


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        stored = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{folder} holds no run that can be continued: {name} is missing or damaged."
        ) from error
    if not isinstance(stored, dict):
        raise UsageError(f"{folder} holds no run that can be continued: {name} is damaged.")
    return stored


def free_folder(parent: Path, name: str) -> Path:
    """The first of ``name``, ``name-2``, ``name-3``, ... that does not exist."""
    candidate, number = parent / name, 2
    while candidate.exists():
        candidate, number = parent / f"{name}-{number}", number + 1
    return candidate


def sweep(folder: Path) -> None:
    """Remove temporary files of interrupted writes."""
    for left in list(folder.rglob(".*")):
        if left.is_dir() and left.name.startswith(".commentary"):
            shutil.rmtree(left)
        elif left.suffix.removeprefix(".").isdigit():
            left.unlink(missing_ok=True)  # it may have lain in such a folder

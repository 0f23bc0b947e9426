"""The folder of a commentary: its files, its card's content, and what may be replaced."""

import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tutelage.commentaries.kinds import KINDS
from tutelage.errors import UsageError, nearest

SCHEMA = 1
"""version of the layout of ``commentary.json``"""
CARD, WEIGHTS = "commentary.json", "weights.safetensors"
FILES = {CARD, WEIGHTS, "README.md"}
TEACHERS = tuple(KINDS)


def require_free(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds something, but a commentary that is to be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder.is_dir() and {path.name for path in folder.iterdir()} <= FILES):
        raise UsageError(f"{folder} holds something that is not a commentary; name another.")
    read_card(folder)
    if not overwrite:
        raise UsageError(
            f"{folder} holds another commentary: name another folder, or give overwrite=True "
            "(--overwrite)."
        )


def read_card(folder: Path) -> dict[str, Any]:
    """Read ``commentary.json``.

    Args:
        folder: The commentary.

    Returns:
        Its content.

    Raises:
        UsageError: If it is missing or damaged, or of another schema or teacher.
    """
    try:
        content = json.loads((folder / "commentary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{folder} is no commentary: commentary.json is missing or damaged there."
            f"{_suggestion(folder)}"
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("settings"), dict):
        raise UsageError(f"{folder} is no commentary: commentary.json holds no settings.")
    _require_schema(folder, content)
    if content.get("teacher") not in TEACHERS:
        name = reprlib.repr(content.get("teacher")).strip("'")
        raise UsageError(
            f"The commentary {folder} is of an unknown teacher '{name}'. "
            f"{nearest(name, TEACHERS)}"
        )
    return content


def _require_schema(folder: Path, content: Mapping[str, Any]) -> None:
    schema = content.get("schema")
    if type(schema) is int and schema == SCHEMA:
        return
    origin = content.get("environment")
    wrote = reprlib.repr(origin.get("tutelage", "?")) if isinstance(origin, dict) else "?"
    remedy = f"Install the version of tutelage that wrote it ({wrote})"
    if type(schema) is int and schema > SCHEMA:
        remedy = f"A newer version of tutelage wrote it ({wrote}): install that or a later one"
    raise UsageError(
        f"The commentary {folder} has schema {reprlib.repr(schema)}; this version reads "
        f"{SCHEMA}. {remedy}."
    )


def _suggestion(folder: Path) -> str:
    # a run that has one, a file in one, or an address of the Hub that was taken for a path
    if "hf:" in folder.parts:
        name = "/".join(folder.parts[folder.parts.index("hf:") + 1 :])
        return f" Download it first: tutelage commentary pull {name}"
    for other in (folder / "commentary", folder.parent):
        if (other / "commentary.json").is_file():
            return f" Did you mean {other}?"
    return ""

"""Saving and loading of commentaries."""

import json
import reprlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from tutelage.commentaries.classes import classes_learnt_on, require_same_classes
from tutelage.commentaries.described import check, describe, rebuild, sizes_of
from tutelage.commentaries.kinds import KINDS
from tutelage.commentaries.weights import (
    load_tied,
    packed_weights,
    require_finite,
    unpacked_weights,
)
from tutelage.errors import UsageError, nearest
from tutelage.storage.atomic_files import write_atomically
from tutelage.storage.json_files import environment, write_error, write_json
from tutelage.storage.replace_folder import fresh_folder, replace_folder
from tutelage.storage.state_dicts import require_tensors
from tutelage.teachers import InternalState, for_other_classes

SCHEMA = 1
"""version of the layout of ``commentary.json``"""
CARD, WEIGHTS = "commentary.json", "weights.safetensors"
FILES = {CARD, WEIGHTS, "README.md"}
TEACHERS = tuple(KINDS)
DAMAGE_ERRORS = (
    OSError,
    SafetensorError,
    RuntimeError,
    TypeError,
    KeyError,
    ValueError,
    ArithmeticError,
)
"""what reading a damaged commentary may raise"""


class Provenance(NamedTuple):
    """The data and the student that a commentary was learned on."""

    student: str = ""
    """the student it was learnt with, by name"""
    data: str = ""
    """the data set it was learnt on, by name"""
    classes: tuple[str, ...] = ()
    """class names, in the order of the labels"""
    mean: tuple[float, ...] = ()
    """per channel, in 0..1: inputs were normalised with it"""
    std: tuple[float, ...] = ()
    """per channel, in 0..1"""
    metrics: tuple[tuple[str, float], ...] = ()
    """what was measured when it was learnt"""
    command: str = ""
    """the command that learnt it"""
    runs: int = 0
    """of fresh students that it was learnt through, one after the other; 0 where unknown"""
    sides: tuple[int, ...] = ()
    """height and width of the images, pixels"""


def save_commentary(
    teacher: nn.Module, folder: str | Path, provenance: Provenance | None = None
) -> None:
    """Save a teacher as a commentary; an older one in the folder is replaced.

    Args:
        teacher: One of ``TEACHERS``; its network, if it has one, is of ``tutelage.models``.
        folder: Where it goes.
        provenance: Where it comes from.

    Raises:
        UsageError: If the folder holds something that is not a commentary, or the teacher
            cannot be stored.
    """
    folder = Path(folder).resolve()
    try:
        _refuse_foreign(folder)
        _save(teacher, folder, Provenance() if provenance is None else provenance)
    except OSError as error:
        raise UsageError(write_error(error, folder, "or name another folder")) from error


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if folder.is_dir() and {path.name for path in folder.iterdir()} <= FILES:
        read_card(folder)
        return
    raise UsageError(f"{folder} holds something that is not a commentary; name another.")


def _save(teacher: nn.Module, folder: Path, origin: Provenance) -> None:
    name, settings = describe(teacher)
    content = {
        "schema": SCHEMA,
        "teacher": name,
        "settings": settings,
        "learnt_on": origin._asdict() | {"metrics": dict(origin.metrics)},
        "environment": environment(),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = fresh_folder(folder)
    try:
        write_atomically(fresh / WEIGHTS, packed_weights(teacher))
        write_atomically(fresh / "README.md", _card(name, settings, origin).encode())
        write_json(fresh / CARD, content)
        replace_folder(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def load_commentary(
    folder: str | Path,
    student: nn.Module,
    *,
    classes: Sequence[str] | None = None,
    sides: Sequence[int] | None = None,
    zero_label: bool = False,
) -> nn.Module:
    """Load a commentary for another student, without unpickling or importing anything.

    Args:
        folder: The commentary.
        student: The student it will teach; read for taps, not kept.
        classes: The class names of the data it will be used on; checked where given.
        sides: Height and width of that data's images in pixels; checked where given.
        zero_label: Take an ``InternalState`` made for other classes with what it knows of
            classes zeroed (see ``tutelage.teachers.for_other_classes``).

    Returns:
        The teacher, in training mode, on the CPU.

    Raises:
        UsageError: If the folder is no commentary that this version can read, or does not fit
            the student, the classes or the images.
    """
    folder = Path(folder)
    content = read_card(folder)
    settings = content["settings"]
    try:
        tensors = unpacked_weights(folder / WEIGHTS)
        check(content["teacher"], settings, layers=len(tensors))
        other = zero_label and content["teacher"] == InternalState.__name__
        known = () if classes is None else classes_learnt_on(content)
        if classes is not None and not other:
            require_same_classes(content["teacher"], settings, classes, known)
        _require_sides(settings, sides)
        teacher = _rebuilt(content["teacher"], settings, tensors, student)
        if isinstance(teacher, InternalState) and classes and other:
            changed = tuple(classes) != known if known else len(classes) != teacher.classes
            return for_other_classes(teacher, student, len(classes)) if changed else teacher
        return teacher
    except UsageError as error:
        raise UsageError(f"The commentary {folder} does not fit: {error}") from error
    except DAMAGE_ERRORS as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"The commentary {folder} is damaged: {reason}") from error


def _require_sides(settings: Mapping[str, Any], sides: Sequence[int] | None) -> None:
    for size in sizes_of(settings):
        if sides is not None and (size, size) != tuple(sides):
            raise UsageError(
                f"it was made for images of {size}x{size} pixels, but the data's have "
                f"{'x'.join(map(str, sides))}. Learn one on this data with tutelage commentary "
                "learn, or bring the images to that size."
            )


def _rebuilt(
    name: str, settings: Mapping[str, Any], tensors: dict[str, Tensor], student: nn.Module
) -> nn.Module:
    with torch.device("meta"):  # without memory first, so that absurd settings cost none
        teacher = rebuild(name, settings, student)
    require_tensors(tensors, teacher.state_dict(), "teacher", kinds=True)
    require_finite(tensors)
    load_tied(teacher, tensors)
    return teacher


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
    # a run that has one, or a file in one
    for other in (folder / "commentary", folder.parent):
        if (other / "commentary.json").is_file():
            return f" Did you mean {other}?"
    return ""


def _card(name: str, settings: Mapping[str, Any], origin: Provenance) -> str:
    facts = "\n".join(f"- {key}: `{value}`" for key, value in settings.items())
    metrics = "\n".join(f"- {key}: {value:.4g}" for key, value in origin.metrics) or "- none"
    return f"""# Commentary: {name}

A learned teacher for `tutelage`: what is shown of each training example, or how much it counts.

Learnt on {origin.data or "unnamed data"} with the student {origin.student or "unnamed"}.
Classes: {", ".join(origin.classes) or "unnamed"}.
Learnt by: `{origin.command or "not recorded"}`

Use it:

    tutelage train DATA --commentary path/to/this/folder

Settings:

{facts}

Measured when it was learnt:

{metrics}
"""

"""Saving and loading of commentaries."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from tutelage.commentaries.card import card_of
from tutelage.commentaries.described import (
    check,
    classes_of,
    describe,
    parts_of,
    rebuild,
    sizes_of,
)
from tutelage.commentaries.folders import CARD, SCHEMA, WEIGHTS, read_card, require_free
from tutelage.commentaries.hub import local_folder
from tutelage.commentaries.kinds import Settings
from tutelage.commentaries.weights import (
    load_tied,
    packed_weights,
    require_finite,
    unpacked_weights,
)
from tutelage.errors import UsageError, first_line, one_line
from tutelage.storage.atomic_files import fresh_folder, replace_folder, write_atomically
from tutelage.storage.json_files import environment, write_error, write_json
from tutelage.storage.state_dicts import require_tensors
from tutelage.teachers import InternalState, for_other_classes
from tutelage.teachers.steps_taken import FEWEST_TEACHER_STEPS, few_steps_taken

_LOG = logging.getLogger(__name__)
BY_CLASS = (
    *("Blending", "DynamicLoss", "KeepProbability", "MentorNetDD"),
    *("MetaLabelCorrection", "MetaSoftLabelCorrector", "OutOfFoldTargets"),
)
"""teachers with parameters of classes; ``InternalState`` where it takes the label"""
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


def classes_learned_on(card: Mapping[str, Any]) -> tuple[str, ...]:
    """The class names that a commentary was learned on, in label order."""
    origin = card.get("learnt_on")
    names = origin.get("classes") if isinstance(origin, dict) else None
    return tuple(map(str, names)) if isinstance(names, list) else ()


def require_same_classes(
    name: str, settings: Settings, classes: Sequence[str], known: Sequence[str]
) -> None:
    """Raise if a commentary was learned on other classes."""
    zeroed = (
        ", or zero what it knows of classes: zero_label, as --label-embedding zero"
        if name == InternalState.__name__
        else ""
    )
    for expected in classes_of(settings):
        if expected != len(classes):
            raise UsageError(
                f"it was made for {expected} classes, but the data has {len(classes)}. "
                f"Learn one on this data with tutelage train{zeroed}."
            )
    if not known or not _depends_on_classes(name, settings) or list(classes) == list(known):
        return
    unknown = [one_line(c) for c in classes if c not in known]
    own, others = (", ".join(map(one_line, names)) for names in (classes, known))
    difference = (
        f"it does not know the class{'es' if len(unknown) > 1 else ''} {', '.join(unknown)}"
        if unknown
        else f"the data has its classes in another order ({own})"
    )
    raise UsageError(
        f"{difference}; it was learned on {others}. Bring the class names to those, or "
        f"learn one on this data with tutelage train{zeroed}."
    )


def _depends_on_classes(name: str, settings: Settings) -> bool:
    if name == InternalState.__name__:
        return bool(settings["label"]) or "prediction" in settings["surface"]
    inside = (
        _depends_on_classes(part["teacher"], part["settings"]) for part in parts_of(settings)
    )
    return name in BY_CLASS or any(inside)


class Provenance(NamedTuple):
    """The data and the student that a commentary was learned on."""

    student: str = ""
    """the student it was learned with, by name"""
    data: str = ""
    """the data set it was learned on, by name"""
    classes: tuple[str, ...] = ()
    """class names, in the order of the labels"""
    mean: tuple[float, ...] = ()
    """per channel, in 0..1: inputs were normalised with it"""
    std: tuple[float, ...] = ()
    """per channel, in 0..1"""
    metrics: tuple[tuple[str, float], ...] = ()
    """what was measured when it was learned"""
    command: str = ""
    """the command that learned it"""
    runs: int = 0
    """of fresh students that it was learned through, one after the other; 0 where unknown"""
    sides: tuple[int, ...] = ()
    """height and width of the images, pixels"""
    signal: str = ""
    """the signal that it was learned by"""
    seeds: tuple[int, ...] = ()
    """of the runs that it was learned in"""
    gains: tuple[tuple[str, float], ...] = ()
    """by control, such as ``untaught``: the test accuracy of students that it taught less that
    of the control, percentage points, mean over seeds"""
    measured_on: str = ""
    """the data, the student and the seeds that gains were measured with"""


def save_commentary(
    teacher: nn.Module,
    folder: str | Path,
    provenance: Provenance | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Save a teacher as a commentary.

    Logs a warning where it has learned in a ``Tutor`` without ``total_steps``, by fewer than 50
    steps of its own; the loop has to have 50 student steps or more, and its optimiser to count
    steps, as Adam does.

    Args:
        teacher: One of ``TEACHERS``; its network, if it has one, is of ``tutelage.models``.
        folder: Where it goes.
        provenance: Where it comes from; the card says what is missing.
        overwrite: Whether a commentary that is in the folder is replaced.

    Raises:
        UsageError: If the folder holds another commentary or something else, or the teacher
            cannot be stored.
    """
    folder = Path(folder).resolve()
    try:
        require_free(folder, overwrite=overwrite)
        _save(teacher, folder, Provenance() if provenance is None else provenance)
    except OSError as error:
        raise UsageError(write_error(error, folder, "or name another folder")) from error
    _warn_of_few_steps(teacher)


def _warn_of_few_steps(teacher: nn.Module) -> None:
    if (taken := few_steps_taken(teacher)) is not None:
        _LOG.warning(
            "%s has taken %d steps only, below %d, which is little to learn "
            "from: train for more steps, or give a smaller teacher_every, aggregate or batch "
            "size.",
            type(teacher).__name__,
            taken,
            FEWEST_TEACHER_STEPS,
        )


def _save(teacher: nn.Module, folder: Path, origin: Provenance) -> None:
    name, settings = describe(teacher)
    content = {
        "schema": SCHEMA,
        "teacher": name,
        "settings": settings,
        "learnt_on": _plain(origin._asdict()),
        "environment": environment(),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = fresh_folder(folder)
    try:
        write_atomically(fresh / WEIGHTS, packed_weights(teacher))
        write_atomically(fresh / "README.md", card_of(content).encode())
        write_json(fresh / CARD, content)
        replace_folder(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def amend_card(folder: str | Path, **facts: Any) -> None:
    """Record more of where a commentary comes from, such as gains measured since.

    Args:
        folder: The commentary.
        facts: Fields of ``Provenance`` and their values.

    Raises:
        UsageError: If the folder is no commentary, or cannot be written.
    """
    try:
        rewrite_card(Path(folder), facts)
    except OSError as error:
        raise UsageError(write_error(error, folder, "then try again")) from error


def rewrite_card(folder: Path, facts: Mapping[str, Any]) -> None:
    """``amend_card``, with errors of the file system as they are."""
    content = read_card(folder)
    found = content.get("learnt_on")
    Provenance(**facts)  # refuses unknown fields
    content["learnt_on"] = (found if isinstance(found, dict) else {}) | _plain(facts)
    write_json(folder / CARD, content)
    write_atomically(folder / "README.md", card_of(content).encode())


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    pairs = ("metrics", "gains")
    return {name: dict(value) if name in pairs else value for name, value in facts.items()}


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
        folder: The commentary; one on the Hugging Face Hub as ``hf://user/name``, perhaps with
            ``@revision``, which is downloaded once.
        student: The student it will teach; read for taps, not kept.
        classes: The class names of the data it will be used on; checked where given.
        sides: Height and width of that data's images in pixels; checked where given.
        zero_label: Take an ``InternalState`` made for other classes with what it knows of
            classes zeroed (see ``tutelage.teachers.for_other_classes``).

    Returns:
        The teacher, in training mode, on the CPU.

    Raises:
        UsageError: If the folder is no commentary that this version can read, does not fit the
            student, the classes or the images, or cannot be downloaded.
    """
    folder = local_folder(folder)
    content = read_card(folder)
    settings = content["settings"]
    try:
        tensors = unpacked_weights(folder / WEIGHTS)
        check(content["teacher"], settings, layers=len(tensors))
        other = zero_label and content["teacher"] == InternalState.__name__
        known = () if classes is None else classes_learned_on(content)
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
        message = f"The commentary {folder} is damaged: {first_line(error)}"
        raise UsageError(message) from error


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

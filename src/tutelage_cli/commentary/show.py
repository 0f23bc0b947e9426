"""Describes a commentary, in lines and on a page with charts, and exports it as JSON."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tutelage.augment.exported import APPROXIMATE
from tutelage.commentaries import load_commentary, read_card, write_policy
from tutelage.commentaries.card import FACTS, caution, fact_of
from tutelage.errors import UsageError, in_one_line
from tutelage.storage.json_files import write_error
from tutelage.teachers import LearnedAugmentation
from tutelage_cli.commentary.image_sections import SectionInputs
from tutelage_cli.commentary.pictures import draw_sections
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.reading import STRICT, Reading
from tutelage_cli.data.sources import WORDS, load
from tutelage_cli.data.splits import limit_rows
from tutelage_cli.report import elements
from tutelage_cli.report.page import document, write_page

SHOWN_ON = 500
"""images, class balanced, that a commentary is drawn on"""


def show(
    folder: Path,
    data: str | None,
    out: Path,
    *,
    reading: Reading = STRICT,
    place: str | None = None,
) -> list[str]:
    """Describe a commentary and write its page; without ``data`` on what it was learned on."""
    card = read_card(folder)
    learnt_on = card.get("learnt_on")
    provenance: dict[str, Any] = learnt_on if isinstance(learnt_on, dict) else {}
    name = data if data is not None else provenance.get("data")
    wanted = data is not None or (isinstance(name, str) and name in WORDS)
    batches = _images(str(name), provenance, reading) if wanted else None
    names = batches.examples.classes if batches is not None else _names(provenance)
    sides = batches.examples.images.shape[2:] if batches is not None else None
    teacher = load_commentary(
        folder, stand_in(card["settings"]), classes=names or None, sides=sides
    )
    facts = _facts(card, provenance)
    try:
        parts = draw_sections(SectionInputs(teacher, tuple(names), batches))
    except RuntimeError as error:  # torch's own, by any layer
        raise UsageError(
            f"The commentary {place or folder} does not fit {name}: {in_one_line(error)}"
        ) from error
    lines = [f"{key}: {value}" for key, value in facts.items()]
    lines += filter(None, [caution(card)])
    parts["what"] = ("What it is", _what(facts, card))
    lead = f"Learned on {facts['data']} with the student {facts['student']}."
    where = f"Folder: {folder.name}" if place is None or Path(place) == folder else place
    page = document(f"Commentary: {card['teacher']}", where, [lead], parts)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_page(page, out)
    except OSError as error:
        raise UsageError(write_error(error, out, "or name another file with --out")) from error
    return lines


def stand_in(settings: Mapping[str, Any]) -> nn.Module:
    """A module with the taps of a commentary, to load it without a student."""
    student = nn.Module()
    for tap in (part.get("tap") for part in _with_parts(settings)):
        if isinstance(tap, str) and tap:
            at = student
            for name in tap.split("."):
                if name and name not in dict(at.named_children()):
                    at.add_module(name, nn.Module())
                at = at.get_submodule(name)
    return student


def _names(provenance: Mapping[str, Any]) -> Sequence[str]:
    classes = provenance.get("classes")
    return [str(name) for name in classes] if isinstance(classes, list) else []


def _images(data: str, provenance: Mapping[str, Any], reading: Reading) -> Batches[ImageSet]:
    train = load(data, reading=reading).train
    rows = limit_rows(train.labels, SHOWN_ON, len(train.classes), seed=0)
    mean, std = statistics(train)
    stored = _numbers(provenance.get("mean")), _numbers(provenance.get("std"))
    if len(stored[0]) == len(stored[1]) == len(mean):
        mean, std = (torch.tensor(values) for values in stored)
        if not bool(mean.isfinite().all() & std.isfinite().all() & (std > 0).all()):
            raise UsageError(
                f"The commentary was learned with mean {stored[0]} and deviation {stored[1]}: "
                "its card is damaged; allowed: finite numbers, the deviation above 0."
            )
    collate, cpu = CollateImages(mean, std), torch.device("cpu")
    return Batches(train.rows(rows), SHOWN_ON, 0, collate, cpu)


def _numbers(values: object) -> list[float]:
    numbers = values if isinstance(values, list) else []
    return [float(n) for n in numbers if isinstance(n, int | float)]


def _facts(card: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, str]:
    settings = card["settings"]
    facts = {"teacher": card["teacher"]}
    facts |= {f"its {key}": _text(value) for key, value in settings.items()}
    facts["expects of a student"] = _expects_of_student(settings)
    facts["expects of data"] = _expects_of_data(settings)
    facts["data"] = str(provenance.get("data") or "unnamed data")
    facts["student"] = str(provenance.get("student") or "unnamed")
    facts["classes"] = ", ".join(_names(provenance)) or "unnamed"
    facts["learned by"] = fact_of(provenance, "command")
    for name in ("signal", "seeds", "gains"):
        facts[FACTS[name].lower()] = fact_of(provenance, name)
    metrics = provenance.get("metrics")
    for key, value in (metrics if isinstance(metrics, dict) else {}).items():
        facts[str(key).replace("_", " ")] = _text(value)
    return facts


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)


def _expects_of_student(settings: Mapping[str, Any]) -> str:
    wants = [
        f"a module '{part['tap']}' of {part.get('tap_width')} features per example"
        for part in _with_parts(settings)
        if part.get("tap")
    ]
    return ", ".join(wants) or "nothing"


def _expects_of_data(settings: Mapping[str, Any]) -> str:
    wants = []
    for part in _with_parts(settings):
        if "classes" in part:
            wants.append(f"{part['classes']} classes")
        network = part.get("network")
        if isinstance(network, dict):
            extra = " (one of them the iteration)" if part.get("iteration") else ""
            wants.append(f"{network.get('channels')} channels{extra}")
            if "size" in network:
                wants.append(f"images of {network['size']}x{network['size']} pixels")
    return ", ".join(dict.fromkeys(wants)) or "nothing"


def _with_parts(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    # the settings of a teacher, then of its parts
    inner = [part.get("settings") for part in settings.values() if isinstance(part, dict)]
    return [settings, *(own for own in inner if isinstance(own, dict))]


def _what(facts: Mapping[str, str], card: Mapping[str, Any]) -> str:
    environment = card.get("environment")
    known = environment if isinstance(environment, dict) else {}
    made = {str(key): str(value) for key, value in known.items()}
    body = (
        f'<div class="columns">{elements.pairs("The commentary", facts)}'
        f"{elements.pairs('Learned with', made)}</div>"
    )
    return elements.section("What it is", body, anchor="what")


def export(
    folder: Path, size: tuple[int, int] | None, out: Path, *, place: str | None = None
) -> list[str]:
    """Write a commentary as JSON that names functions of torchvision; ``size`` in pixels."""
    name = folder if place is None else place
    if size is not None and min(size) < 1:
        raise UsageError(f"--size is {size[0]} {size[1]}; allowed: 1 and above.")
    card = read_card(folder)
    if card["teacher"] != LearnedAugmentation.__name__:
        raise UsageError(
            f"{name} is of the teacher {card['teacher']}; only a learned augmentation can be "
            "written for torchvision."
        )
    size = _size_learned_on(card) if size is None else size
    if size is None:
        raise UsageError(
            f"{name} does not say on images of which size it was learned: give --size HEIGHT "
            "WIDTH, in pixels."
        )
    teacher = load_commentary(folder, stand_in(card["settings"]))
    assert isinstance(teacher, LearnedAugmentation)
    write_policy(teacher, out, size)
    approximate = [name for name in APPROXIMATE if name in teacher.space.operations]
    lines = [f"Policy: {out}, for images of {size[0]}x{size[1]} pixels"]
    return lines + [f"Approximate, torchvision has none: {', '.join(approximate)}"] * bool(
        approximate
    )


def _size_learned_on(card: dict) -> tuple[int, int] | None:
    learnt_on = card.get("learnt_on")
    sides = learnt_on.get("sides") if isinstance(learnt_on, dict) else None
    if isinstance(sides, list) and len(sides) == 2 and all(type(n) is int for n in sides):
        return sides[0], sides[1]
    return None

"""Exports a learned augmentation as JSON."""

from pathlib import Path

from tutelage.augment.exported import APPROXIMATE
from tutelage.commentaries import load_commentary, read_card, write_policy
from tutelage.errors import UsageError
from tutelage.teachers import LearnedAugmentation
from tutelage_cli.commentary.show import stand_in


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

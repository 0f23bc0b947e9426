"""What a learned augmentation came to, as sections of a page."""

import numpy as np

from tutelage.learning.on_images import Exhibit
from tutelage.report import charts, elements, formats, looks
from tutelage.teachers import LearnedAugmentation

MOST = 3
"""operations whose way is drawn at either end: the most and the least kept"""


def augmentation(of: Exhibit) -> tuple[str, str]:
    """How likely every operation is kept, how strong it is, and how that came to be.

    Args:
        of: The teacher.

    Returns:
        Title and HTML.
    """
    teacher = of.teacher
    assert isinstance(teacher, LearnedAugmentation)
    policy, names = teacher.policy(), np.array(teacher.space.operations)
    highest = teacher.space.levels - 1
    levels = policy.strength @ np.arange(highest + 1)
    order = np.argsort(-policy.keep, kind="stable")
    strong = order[teacher.space.has_strength[order]]
    drawings = (
        _bars("Probability to be kept, once drawn", "probability", names, policy.keep, order),
        _bars(f"Expected level, 0 to {highest}", "level", names, levels, strong),
    )
    html = f'<div class="charts">{"".join(drawings)}</div>'
    html += _over_time(teacher, names, order)
    many = {str(n): formats.number(float(p)) for n, p in enumerate(policy.how_many, 1)}
    html += elements.pairs("Operations drawn for an image: probability", many)
    note = (
        "Where all logits are zero, as at first, every operation is kept with probability 0.5 "
        f"and has the expected level {highest / 2:g}."
    )
    return "Which augmentations were kept", html + elements.paragraph(note, style="note")


def _bars(
    caption: str, label: str, names: np.ndarray, values: np.ndarray, order: np.ndarray
) -> str:
    found = {str(names[row]): float(values[row]) for row in order}
    drawing = charts.bars(found, label, mark=label, title=f"{caption}, by operation.")
    return elements.chart(caption, drawing)


def _over_time(teacher: LearnedAugmentation, names: np.ndarray, order: np.ndarray) -> str:
    steps, past = teacher.history()
    if len(steps) < 2:
        return ""
    ends = [*order[:MOST], *order[-MOST:]]
    parts, last = "", teacher.space.levels - 1
    for column, caption, scale, rows in (
        (0, "Probability to be kept", 1.0, ends),
        (1, "Expected level", float(last), [r for r in ends if teacher.space.has_strength[r]]),
    ):
        tracks = {str(names[r]): (past[:, r, column] * scale).tolist() for r in rows}
        mark = f"past-{column}"
        drawing = charts.lines(
            steps,
            tracks,
            ("augmented steps", caption.lower()),
            mark=mark,
            title=f"{caption} over training, of the operations kept most and least.",
        )
        key = looks.legend(list(looks.arm_looks(list(tracks)).items()), mark=f"{mark}-key")
        parts += f"<div>{elements.chart(f'{caption} over training', drawing)}{key}</div>"
    return f'<div class="charts">{parts}</div>'

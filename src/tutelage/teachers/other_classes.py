"""Transfer of an ``InternalState`` teacher to other classes."""

import torch
from torch import nn

from tutelage.teachers.internal_state import InternalState


def for_other_classes(
    teacher: InternalState, student: nn.Module, classes: int
) -> InternalState:
    """The teacher for data of other classes, with its class inputs zeroed.

    Weights that a label or a predicted class had are zero: E, where the teacher is linear.
    Those of the internal state and of the other surface facts are kept.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, appendix B.

    Args:
        teacher: The teacher as it was learned.
        student: The student that it will teach.
        classes: How many classes there are now.

    Returns:
        A new teacher of the type and on the device of the other; a student without its tap, or
        with another width there, is refused.
    """
    made = InternalState(
        student,
        classes=classes,
        tap=teacher.taps[0] if teacher.taps else None,
        label=teacher.label,
        surface=teacher.surface,
        hidden_layers=teacher.hidden_layers,
        width=teacher.width,
        attached=bool(teacher.attached),
        tap_width=teacher.tap_width or None,
        level=teacher.level,
    )
    first = next(teacher.parameters())
    made = made.to(first.device, first.dtype)
    kept = teacher.state_dict()
    old, new = teacher.columns(), made.columns()
    weight = made.state_dict()["net.0.weight"].zero_()
    for name, place in new.items():
        if name not in ("label", "prediction"):
            weight[:, place] = kept["net.0.weight"][:, old[name]]
    with torch.no_grad():
        made.load_state_dict(kept | {"net.0.weight": weight})
    return made

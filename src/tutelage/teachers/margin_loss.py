"""Weights from margin and loss: the default teacher of ``fit`` and of ``tutelage train``."""

from torch import nn

from tutelage.teachers.internal_state import InternalState


class MarginLoss(InternalState):
    """``w = sigma(MLP(margin, loss))`` with one hidden ReLU layer: ``InternalState`` so set.

    The margin ``p_y - max_{c != y} p_c`` of the given label and its loss say whether the
    student contradicts the label, and how strongly. The last layer starts at zero, so that
    every example first counts the same. It is ``margin-loss`` of ``tutelage train``, the
    default teacher of ``tutelage.fit``, and is stored as ``InternalState``.

    Source: Fan et al. 2021, Learning to Reweight with Deep Interactions, sections 3 and 4: the
    surface facts margin and loss alone, with the paper's MLP-1.

    Args:
        student: The student, on whose device the teacher is made; not kept.
        classes: C, the number of classes.
        width: Units of the hidden layer.
        level: ``"free"``, the paper's formula, or ``"centred"``, which takes the mean over the
            batch off the sigmoid's input; see ``tutelage.teachers.InternalState``.

    Raises:
        UsageError: If the level is unknown.
    """

    def __init__(
        self, student: nn.Module, classes: int, *, width: int = 32, level: str = "free"
    ) -> None:
        super().__init__(
            student,
            classes=classes,
            label=False,
            surface=("margin", "loss"),
            hidden_layers=1,
            width=width,
            level=level,
        )
        if (first := next(student.parameters(), None)) is not None:
            self.to(first.device)

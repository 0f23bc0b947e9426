"""Meta-Weight-Net with the settings of its authors' two scripts.

Both try a step of plain SGD with the teacher's weights, move the teacher by the held-out loss
after it, and take the real step with the new weights. What is left to the caller: the batches
(100 examples, and 100 held-out ones for every step) and the learning rate's schedule.

Source: Shu et al. 2019, Meta-Weight-Net, and its official code.
"""

from torch import nn
from torch.optim import SGD, Adam

from tutelage.signals import Lookahead
from tutelage.teachers import LossWeigher
from tutelage.training.tutor import Tutor

__all__ = ["paper_script", "stable_script"]


def paper_script(student: nn.Module, *, lr: float = 0.1, seed: int = 0) -> Tutor:
    """The script of the paper's tables: weights that sum to one over a batch.

    The student's SGD has Nesterov momentum 0.9 and weight decay 5e-4, the teacher's the same
    and learning rate 1e-3.

    Args:
        student: The module to train, on its device and of its type.
        lr: The student's learning rate; schedule it at ``tutor.optimizer``.
        seed: Where the randomness of dropout starts from.

    Returns:
        What trains it; give it a held-out batch at every step.
    """
    teacher = _like(student, LossWeigher())
    student_rule = SGD(
        student.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    teacher_rule = SGD(
        teacher.parameters(), lr=1e-3, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    signal = Lookahead(mode="virtual")
    return Tutor(student, student_rule, teacher, teacher_rule, signal=signal, seed=seed)


def stable_script(student: nn.Module, *, lr: float = 0.1, seed: int = 0) -> Tutor:
    """The later script: weights as they are, and Adam for the teacher.

    The student's SGD has plain momentum 0.9 and weight decay 5e-4, the teacher's Adam learning
    rate 1e-3 and weight decay 1e-4.

    Args:
        student: The module to train, on its device and of its type.
        lr: The student's learning rate; schedule it at ``tutor.optimizer``.
        seed: Where the randomness of dropout starts from.

    Returns:
        What trains it; give it a held-out batch at every step.
    """
    teacher = _like(student, LossWeigher(normalise=None))
    student_rule = SGD(student.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    teacher_rule = Adam(teacher.parameters(), lr=1e-3, weight_decay=1e-4)
    signal = Lookahead(mode="virtual")
    return Tutor(student, student_rule, teacher, teacher_rule, signal=signal, seed=seed)


def _like(student: nn.Module, teacher: LossWeigher) -> LossWeigher:
    p = next(student.parameters())
    return teacher.to(p.device, p.dtype)

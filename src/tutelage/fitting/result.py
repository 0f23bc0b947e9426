"""What ``fit`` gives: the student, the weight of every example, and a report."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

WHICH = {"checked": ", by students that were not trained on them"}
"""what is added to the line of a part"""


class CrossFittedLabels(NamedTuple):
    """What a student is trained on in place of N given labels, and with H checked ones."""

    targets: Float[Tensor, "N+H C"]
    """posteriors of the right classes; of the checked examples these classes"""
    right: Float[Tensor, "N"]
    """the probability that the given label is right"""
    accuracy: float
    """on the checked examples, of students that were not trained on them"""
    decay_factor: float
    """of the student's weights, times that of its optimiser"""
    note: str
    """a caution; empty if there is none"""
    at_chance: str = ""
    """that plain students of folds are hardly better than chance; empty if they are"""


@dataclass(frozen=True)
class FitResult:
    """A student trained by ``fit``."""

    student: nn.Module
    """the module that was given, with the weights of its best epoch, in evaluation mode"""
    teacher: nn.Module
    """as it was at the end"""
    weights: Tensor
    """[N] float32, by index in the training set. Of a taught run: how much each example counted
    in the best epoch, over the mean of its batch: 1 is the average. Of a cross-fitted run: the
    probability that the given label is right"""
    history: list[dict[str, float | int]]
    """one entry an epoch: ``epoch``, ``train_loss``, ``teacher_steps``, and where examples
    choose the epoch ``validation_accuracy`` in 0..1 and ``validation_loss`` in nats"""
    best_epoch: int
    """from 1; the last one where no examples choose"""
    accuracies: dict[str, tuple[float, int]]
    """share of correct predictions, and of how many examples, by part: ``test``,
    ``validation`` (chose the epoch), ``held out`` (the teacher learned by them), ``checked``
    (of the students of folds, each on those it was not trained on)"""
    teacher_steps: int
    """steps of the teacher's optimiser, those skipped for a gradient that is not finite left
    out"""
    notes: tuple[str, ...] = ()
    """cautions about the run"""
    targets: Tensor | None = None
    """[N, C]: what the student was trained on in place of the given labels, where that was
    something else"""
    decay_factor: float = 1.0
    """of the student's weights, times that of its optimiser: what given labels chose"""

    def cross_fitted_by(self, labels: CrossFittedLabels) -> "FitResult":
        """The result of a student that was trained on cross-fitted labels."""
        count, total = len(labels.right), len(labels.targets)
        return replace(
            self,
            weights=labels.right,
            accuracies={**self.accuracies, "checked": (labels.accuracy, total - count)},
            notes=(*self.notes, *filter(None, [labels.note])),
            targets=labels.targets[:count],
            decay_factor=labels.decay_factor,
        )

    def report(self) -> str:
        """The accuracies, the labels that are probably wrong and the cautions, in a few lines.

        Returns:
            Lines of text.
        """
        low = float((self.weights < 0.5).float().mean())
        chosen = "validation_accuracy" in self.history[-1]
        which = "is the best" if chosen else "counts, the last one"
        lines = [f"epoch {self.best_epoch} of {len(self.history)} {which}"]
        lines += [
            f"{part}: {share:.1%} of {count} examples correct" + WHICH.get(part, "")
            for part, (share, count) in self.accuracies.items()
        ]
        if self.targets is None:
            lines += [
                f"{low:.1%} of {len(self.weights)} training examples have a weight below 0.5 "
                "(the mean is 1)",
                f"{self.teacher_steps} teacher steps",
            ]
        else:
            lines.append(f"{low:.1%} of {len(self.weights)} given labels are probably wrong")
        lines += [f"caution: {note}" for note in self.notes]
        return "\n".join(lines)

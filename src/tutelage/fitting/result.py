"""What ``fit`` gives: the student, the weight of every example, and a report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

WHICH = {"checked": ", by students of other folds"}
"""what is added to the line of a part"""
LAST = 1 / 5
"""share of the epochs at the full learning rate that are the last ones, one at least"""
MARGIN = 0.1
"""of what all these epochs lowered a loss by: what the last ones do where training was too
short"""
LEARNED = 0.1
"""of the first epoch's loss: below it, a student has learned its training set anyway"""


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
    transitions: Float[Tensor, "C C"] | None = None
    """of the loss that is descended on given labels; None: cross entropy, on ``targets``"""
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
    """[N, C]: of a cross-fitted run the posteriors of the right classes. The student was
    trained on them, or on the given labels under a loss corrected by class transitions. Where
    it was trained on the given labels as they are: these, one-hot"""
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


def still_falling(
    losses: Sequence[float], full: int, held_out: Sequence[float] | None = None
) -> str:
    """A clause that the loss was still falling when the learning rate was lowered, or nothing.

    Later the loss hardly falls, however short training was. It was falling where the last fifth
    of these epochs, one at least, made a tenth or more of what they all lowered the loss by,
    and the loss ends at a tenth of the first epoch's or above. Where losses of held-out
    examples are known, the same holds for them: else the student memorises labels. A single
    epoch shows nothing. Losses are means over each epoch in nats; ``full`` epochs have the
    whole learning rate, fewer than two count as two.
    """
    at_full = losses[: max(2, full)]
    last = max(1, int(LAST * len(at_full)))
    if len(at_full) < 2 or losses[-1] < LEARNED * losses[0]:
        return ""
    series = [at_full] if held_out is None else [at_full, held_out[: len(at_full)]]
    if not all(_falls_late(each, last) for each in series):
        return ""
    epochs = f"the last {last} epochs" if last > 1 else "the last epoch"
    return (
        f"fell from {at_full[-1 - last]:.3f} to {at_full[-1]:.3f} in {epochs} at the full "
        "learning rate"
    )


def _falls_late(losses: Sequence[float], last: int) -> bool:
    first, before, end = losses[0], losses[-1 - last], losses[-1]
    return end < first and before - end >= MARGIN * (first - end)


def too_short(*signs: str) -> str:
    """A note on a run of ``fit``, of those signs that are not empty; empty without any."""
    found = "; and ".join(filter(None, signs))
    remedy = "train for more epochs, or with another learning rate"
    return f"perhaps too short: {found}; {remedy}" if found else ""

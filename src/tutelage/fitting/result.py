"""What ``fit`` gives: the student, the weight of every example, and a report."""

from dataclasses import dataclass

from torch import Tensor, nn

FEW_STEPS = 50
"""teacher steps below which a run is said to be short"""


@dataclass(frozen=True)
class FitResult:
    """A student trained by ``fit``."""

    student: nn.Module
    """the module that was given, with the weights of its best epoch, in evaluation mode"""
    teacher: nn.Module
    """as it was at the end"""
    weights: Tensor
    """[N] float32: how much each training example counted in the best epoch, over the mean of
    its batch: 1 is the average; by index in the training set"""
    history: list[dict[str, float | int]]
    """one entry an epoch: ``epoch``, ``train_loss``, ``teacher_steps``, and where examples
    choose the epoch ``validation_accuracy`` in 0..1 and ``validation_loss`` in nats"""
    best_epoch: int
    """from 1; the last one where no examples choose"""
    accuracies: dict[str, tuple[float, int]]
    """share of correct predictions, and of how many examples, by part: ``test``,
    ``validation`` (chose the epoch), ``held out`` (the teacher learned by them)"""
    teacher_steps: int
    """steps of the teacher's optimiser, those skipped for a gradient that is not finite left
    out"""
    notes: tuple[str, ...] = ()
    """what about the run asks for caution"""

    def report(self) -> str:
        """Say in a few lines what came out, and what asks for caution.

        Returns:
            Lines of text.
        """
        low = float((self.weights < 0.5).float().mean())
        lines = [f"epoch {self.best_epoch} of {len(self.history)} is the best"]
        lines += [
            f"{part}: {share:.1%} of {count} examples correct"
            for part, (share, count) in self.accuracies.items()
        ]
        lines += [
            f"{low:.1%} of {len(self.weights)} training examples have a weight below 0.5 "
            "(the mean is 1)",
            f"{self.teacher_steps} teacher steps",
            *(f"caution: {note}" for note in self.notes),
        ]
        return "\n".join(lines)

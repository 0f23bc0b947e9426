"""Training and testing of the new students that show what a commentary is worth on images.

Raghu et al. 2021, appendices C and D, where one optimiser trains them all.
"""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import MultiStepLR

from tutelage.augment import crop_and_flip
from tutelage.training.forward import shown
from tutelage.training.tutor import Tutor
from tutelage_cli.data.batches import Batches

AT_ONCE = 500
"""images in a batch that is only looked at"""


def sgd(student: nn.Module, lr: float, *, decay: float = 5e-4) -> SGD:
    """The students' optimiser."""
    return SGD(student.parameters(), lr, momentum=0.9, nesterov=True, weight_decay=decay)


def cropped_and_mirrored(images: Tensor, seed: int) -> Tensor:
    """The paper's augmentation."""
    return crop_and_flip(images, seed=seed, mode="zeros")


def trained(tutor: Tutor, train: Batches, epochs: int, drops: Collection[int]) -> list[float]:
    """Train a student to the end of its schedule."""
    schedule, means = MultiStepLR(tutor.optimizer, list(drops)), []
    for epoch in range(epochs):
        losses = [tutor.step(batch).loss for batch in train.epoch(epoch)]
        schedule.step()
        means.append(float(torch.stack(losses).mean()))
    return means


@torch.no_grad()
def tested(tutor: Tutor, test: Batches) -> dict[str, float]:
    """Test a student on images as its teacher shows them at test."""
    student, loss, right = tutor.student.eval(), 0.0, 0
    for batch in test.whole(AT_ONCE):
        logits = student(shown(tutor.problem, batch).inputs)
        loss += float(F.cross_entropy(logits, batch.targets, reduction="sum"))
        right += int((logits.argmax(1) == batch.targets).sum())
    total = len(test.images)
    return {"test_accuracy": 100 * right / total, "test_loss": loss / total}

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
    """The students' optimiser.

    Args:
        student: Whose.
        lr: Its learning rate before the first drop.
        decay: Its weight decay.

    Returns:
        SGD with Nesterov momentum 0.9.
    """
    return SGD(student.parameters(), lr, momentum=0.9, nesterov=True, weight_decay=decay)


def cropped_and_mirrored(images: Tensor, seed: int) -> Tensor:
    """The paper's augmentation.

    Args:
        images: [B, ch, H, W].
        seed: Of crops and mirrors.

    Returns:
        Images of the same shape.
    """
    return crop_and_flip(images, seed=seed, mode="zeros")


def trained(tutor: Tutor, train: Batches, epochs: int, drops: Collection[int]) -> list[float]:
    """Train a student to the end of its schedule.

    Args:
        tutor: The student, with a teacher that no longer learns.
        train: What it learns from.
        epochs: How often it sees them.
        drops: Epochs after which its learning rate falls to a tenth.

    Returns:
        The mean training loss of each epoch.
    """
    schedule, means = MultiStepLR(tutor.optimizer, list(drops)), []
    for epoch in range(epochs):
        losses = [tutor.step(batch).loss for batch in train.epoch(epoch)]
        schedule.step()
        means.append(float(torch.stack(losses).mean()))
    return means


@torch.no_grad()
def tested(tutor: Tutor, test: Batches) -> dict[str, float]:
    """Test a student on images as its teacher shows them at test.

    Args:
        tutor: The student, which is put into evaluation mode, and its teacher.
        test: The images.

    Returns:
        ``test_accuracy`` in percent and ``test_loss``, mean over images, in nats.
    """
    student, loss, right = tutor.student.eval(), 0.0, 0
    for batch in test.whole(AT_ONCE):
        logits = student(shown(tutor.task, batch).inputs)
        loss += float(F.cross_entropy(logits, batch.targets, reduction="sum"))
        right += int((logits.argmax(1) == batch.targets).sum())
    total = len(test.images)
    return {"test_accuracy": 100 * right / total, "test_loss": loss / total}

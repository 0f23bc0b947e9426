"""New students follow their schedule, and are tested on what their teacher shows them."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR

from papers import students
from tests.cli.data.made_up import splits
from tutelage.teachers import Plain
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch, as_prepared
from tutelage_cli.data.batches import Batches, CollateImages

CLASSES = 3


class Dark(nn.Module):
    """Shows nothing of an image, at test, too."""

    at_test = True

    def prepare(self, batch: Batch) -> PreparedBatch:
        return as_prepared(batch)._replace(inputs=torch.zeros_like(batch.inputs))


class Bright(nn.Module):
    """Takes what is bright for class 0, and what is dark for class 1."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images: Tensor) -> Tensor:
        level = self.scale * images.flatten(1).mean(1)
        return torch.stack([level, torch.zeros_like(level), level - 100], 1)


def images(size: int = 4) -> Batches:
    made = splits(train=9, test=9, classes=CLASSES, channels=1, side=6, name="toys").test
    half = torch.full((1,), 0.5)
    return Batches(made, size, 0, CollateImages(half, half), torch.device("cpu"))


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, CLASSES))


@pytest.mark.parametrize(("drops", "left"), [((), 1.0), ((1,), 0.1), ((1, 2), 0.01)])
def test_the_learning_rate_falls_to_a_tenth_after_the_epochs_named(drops, left):
    student = linear()
    tutor = Tutor(student, students.sgd(student, 0.5), Plain())
    losses = students.fit(tutor, images(), 3, MultiStepLR(tutor.optimizer, list(drops)))
    assert len(losses) == 3
    assert tutor.steps == 3 * len(list(images().epoch(0)))
    assert tutor.optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * left)


@pytest.mark.parametrize(("teacher", "level"), [(Plain(), None), (Dark(), 0.0)])
def test_a_student_is_tested_on_every_image_as_it_is_shown(teacher, level):
    student, batches = nn.Sequential(Bright(), nn.Dropout(0.9)), images()
    tutor = Tutor(student, students.sgd(student, 0.1), teacher)
    found = students.evaluate(tutor, batches)
    batch = next(batches.whole(9))
    seen = batch.inputs if level is None else torch.full_like(batch.inputs, level)
    logits = Bright()(seen).detach()
    right = (logits.argmax(1) == batch.targets).double().mean()
    assert found["test_accuracy"] == pytest.approx(100 * float(right))
    loss = nn.functional.cross_entropy(logits, batch.targets)
    assert found["test_loss"] == pytest.approx(float(loss))
    assert not student.training

"""A student is judged as it will be used: through the masks of its teacher, if it has some."""

import pytest
import torch
from torch import Tensor, nn

from tutelage.losses.objectives import Auxiliary, cross_entropy
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch, as_prepared
from tutelage_cli.data.batches import Batches, CollateImages
from tutelage_cli.data.images import ImageSet
from tutelage_cli.train.evaluation import accuracy, evaluate

N = 7


class Negative(nn.Module):
    """Turns images into their negatives."""

    def __init__(self, *, at_test: bool) -> None:
        super().__init__()
        self.at_test = at_test

    def prepare(self, batch: Batch) -> PreparedBatch:
        return as_prepared(batch)._replace(inputs=-batch.inputs)


class Bright(nn.Module):
    """Says class 1 of bright images."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images: Tensor) -> Tensor:
        light = images.mean((1, 2, 3)) * self.scale
        return torch.stack([-light, light], 1)


def bright_images() -> Batches:
    images = torch.full((N, 1, 2, 2), 255, dtype=torch.uint8)
    labels, ids = torch.ones(N, dtype=torch.long), torch.arange(N)
    images = ImageSet(images, labels, ids, ("dark", "bright"), "light")
    half = torch.full((1,), 0.5)
    return Batches(images, 3, 0, CollateImages(half, half), torch.device("cpu"))


@pytest.mark.parametrize(("at_test", "right"), [(False, 1.0), (True, 0.0)])
def test_what_acts_at_test_acts_in_every_evaluation(at_test, right) -> None:
    student = Bright()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, Negative(at_test=at_test))
    assert accuracy(tutor, bright_images()) == right
    seen = evaluate(tutor, bright_images())
    assert (seen.predicted == 1).double().mean() == right
    assert torch.equal(seen.weights, torch.ones(N))
    assert student.training


class WithVector(nn.Module):
    """Gives a vector beside its logits, for auxiliary targets."""

    def __init__(self) -> None:
        super().__init__()
        self.bright = Bright()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.bright(images), torch.zeros(len(images), 4)


def test_a_student_with_a_second_output_is_judged_by_its_logits() -> None:
    student, plain = WithVector(), Bright()
    judged, alone = (
        Tutor(
            one, torch.optim.SGD(one.parameters(), lr=0.1), Negative(at_test=False), objective=o
        )
        for one, o in ((student, Auxiliary(cross_entropy)), (plain, cross_entropy))
    )
    assert accuracy(judged, bright_images()) == 1.0
    seen, wanted = (evaluate(tutor, bright_images()) for tutor in (judged, alone))
    assert torch.equal(seen.predicted, wanted.predicted)
    assert torch.equal(seen.losses, wanted.losses)

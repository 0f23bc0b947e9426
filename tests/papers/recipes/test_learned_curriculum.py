"""Curricula are learned through as many students as said, from one start or from many."""

import pytest
import torch

from papers.raghu2021commentaries.curriculum_cifar import CurriculumSettings, learned
from tutelage.models import TwoBlockCNN
from tutelage.teachers import Curriculum
from tutelage_cli.data.batches import Batches, CollateImages
from tutelage_cli.data.images import ImageSet

SIDE = 14


def batches(size: int) -> Batches:
    """Grey noise of two classes."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (12, 1, SIDE, SIDE), generator=generator, dtype=torch.uint8)
    rows = torch.arange(12)
    data = ImageSet(images, rows % 2, rows, ("even", "odd"), "noise")
    half = torch.full((1,), 0.5)
    return Batches(data, size, 0, CollateImages(half, half), torch.device("cpu"))


@pytest.mark.parametrize("new_start", [True, False])
def test_students_that_do_not_move_differ_only_by_their_start(new_start):
    settings = CurriculumSettings(
        steps=1, batch=4, lr=0.0, teacher_steps=3, new_start=new_start
    )
    curriculum = Curriculum(TwoBlockCNN(2, 1, SIDE))
    judge = next(batches(12).whole(12))
    losses = [float(e.held_out_loss) for e in learned(curriculum, settings, batches(4), judge)]
    assert len(losses) == 3
    assert len(set(losses)) == (3 if new_start else 1)


def test_the_curriculum_moves_after_every_student():
    settings = CurriculumSettings(steps=2, batch=4, lr=1e-2, teacher_steps=2)
    network, judge = TwoBlockCNN(2, 1, SIDE), next(batches(12).whole(12))
    seen = [network.fc.weight.detach().clone()]
    for episode in learned(Curriculum(network), settings, batches(4), judge):
        assert not episode.skipped
        seen.append(network.fc.weight.detach().clone())
    assert not seen[0].equal(seen[1])
    assert not seen[1].equal(seen[2])

"""What stands out in a grid is measured rightly, and baselines have the grids they claim."""

import pytest
import torch

from papers.raghu2021commentaries import blending_cifar
from papers.raghu2021commentaries.blending_cifar import Settings, excess, fractions
from tutelage.teachers import Blending, Mixup, Plain, Shuffled

CPU = torch.device("cpu")
TINY = Settings("cifar10", "cnn", 40, 30, 20, 20, 10, 1, 1e-3, 1e-2, 1, 0.1, False)


def test_two_classes_stand_out_by_their_two_entries_above_their_rows():
    grid = torch.full((4, 4), 0.2)
    grid[0, 0] = 0.5  # one's own class counts for nothing
    grid[1, 3], grid[3, 1] = 0.5, 0.2
    assert excess(grid, (1, 3)) == excess(grid, (3, 1)) == pytest.approx((0.5 - 0.3) / 2)
    assert excess(grid, (0, 2)) == pytest.approx(0.0, abs=1e-6)


def test_fractions_are_what_partners_give():
    blending = Blending(3)
    with torch.no_grad():
        blending.phi.copy_(torch.arange(9.0).reshape(3, 3))
    learned = fractions(blending, 3)
    torch.testing.assert_close(learned, blending.phi.detach().sigmoid() / 2)
    shuffled = fractions(Shuffled(blending, seed=0), 3)
    assert not torch.equal(shuffled, learned)
    torch.testing.assert_close(shuffled.flatten().sort()[0], learned.flatten())
    assert fractions(Plain(), 3).unique().tolist() == [0.0]
    assert fractions(Mixup(3, alpha=1.0), 3).unique().tolist() == [0.5]


@pytest.mark.usefixtures("real_data")
def test_parts_are_balanced_and_apart():
    train, held_out, _ = blending_cifar.parts(TINY, 0, CPU)
    for part, each in ((train, 4), (held_out, 3)):
        assert torch.bincount(part.examples.labels, minlength=10).tolist() == [each] * 10
    assert not set(train.examples.ids.tolist()) & set(held_out.examples.ids.tolist())


@pytest.mark.usefixtures("real_data")
def test_the_shuffled_arm_takes_the_entries_that_the_learned_arm_learned():
    by = {arm: blending_cifar.teacher(arm, TINY, 10, 0, CPU) for arm in ("learned", "shuffled")}
    learned, shuffled = (fractions(teacher, 10) for teacher in by.values())
    assert not torch.equal(learned, shuffled)
    assert learned.std() > 0
    torch.testing.assert_close(learned.flatten().sort()[0], shuffled.flatten().sort()[0])

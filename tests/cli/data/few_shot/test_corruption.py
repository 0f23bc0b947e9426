"""Some support images lose the order of their pixels, as the seed decides."""

import pytest
import torch

from papers.data.few_shot.episodes import Episode, Episodes
from tests.cli.data.made_up import images
from tutelage.errors import UsageError


def task(corrupted: float, seed: int = 0) -> Episode:
    made, half = images(2400, channels=3, side=4), torch.full((3,), 0.5)
    cpu = torch.device("cpu")
    return Episodes(made, 2, 100, 2, seed, half, half, cpu, corrupted).task(0)


def test_corrupted_images_have_the_same_pixels_in_another_order():
    plain, corrupted = task(0.0), task(0.4)
    assert torch.equal(plain.support.ids, corrupted.support.ids)
    assert torch.equal(plain.support.targets, corrupted.support.targets)
    assert torch.equal(plain.query.inputs, corrupted.query.inputs)
    same = (plain.support.inputs == corrupted.support.inputs).flatten(1).all(1)
    assert torch.equal(same, ~corrupted.corrupted)
    assert abs(corrupted.corrupted.float().mean() - 0.4) < 0.12
    for row in corrupted.corrupted.nonzero().flatten().tolist():
        before, after = (
            sorted(one.support.inputs[row].flatten(1).T.tolist()) for one in (plain, corrupted)
        )
        assert before == after


def test_the_seed_decides():
    first, again, other = task(0.5, 1), task(0.5, 1), task(0.5, 2)
    assert torch.equal(first.support.inputs, again.support.inputs)
    assert not torch.equal(first.corrupted, other.corrupted)


def test_nothing_is_corrupted_by_default_and_odd_rates_are_refused():
    assert not task(0.0).corrupted.any()
    with pytest.raises(UsageError, match=r"corrupted is 1.5; allowed: 0\.\.1"):
        task(1.5)

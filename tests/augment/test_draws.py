"""Draws depend on seed, id and purpose alone, and look random in each of them."""

import numpy as np
import pytest
import torch

from tutelage.augment.draws import GOLDEN, ExampleRandom, splitmix64
from tutelage.errors import UsageError

MANY = 4000


def test_the_mixer_is_splitmix64s():
    # the first numbers of the published generator from the seed 1234567
    state = np.uint64(1234567) + np.arange(1, 6, dtype=np.uint64) * GOLDEN
    assert splitmix64(state).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_an_example_draws_the_same_whatever_else_is_in_the_batch():
    ids = torch.tensor([7, 2**40, 0, 7, -3])
    together = ExampleRandom(5, ids, 5)
    for row in range(5):
        alone = ExampleRandom(5, ids[row : row + 1], 1)
        assert (together.uniform(1, 6)[row] == alone.uniform(1, 6)[0]).all()
        assert (together.uniform(1, 6)[row, :2] == alone.uniform(1, 2)[0]).all()
        assert (together.distinct(2, 3, 9)[row] == alone.distinct(2, 3, 9)[0]).all()
    assert (
        ExampleRandom(5, None, 3).uniform(0, 2)
        == ExampleRandom(5, torch.arange(3), 3).uniform(0, 2)
    ).all()


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1])
def test_numbers_are_uniform_and_unrelated_along_every_axis(seed):
    found = ExampleRandom(seed, None, MANY).uniform(0, 4)
    assert found.min() >= 0
    assert found.max() < 1
    shares = np.histogram(found, bins=20, range=(0, 1))[0] / found.size
    # five standard deviations of a share of 0.05 among 16,000
    assert np.abs(shares - 0.05).max() < 5 * np.sqrt(0.05 * 0.95 / found.size)
    others = {
        "columns": (found[:, 0], found[:, 1]),
        "ids": (found[:-1, 0], found[1:, 0]),
        "streams": (found[:, 0], ExampleRandom(seed, None, MANY).uniform(1, 1)[:, 0]),
        "seeds": (found[:, 0], ExampleRandom(seed + 1, None, MANY).uniform(0, 1)[:, 0]),
        "id and stream": (found[1:, 0], ExampleRandom(seed, None, MANY).uniform(1, 1)[:-1, 0]),
    }
    for axis, (one, other) in others.items():
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(MANY), axis


def test_whole_numbers_are_all_as_likely_and_distinct_ones_differ():
    counts = np.bincount(ExampleRandom(0, None, MANY).whole(0, 1, 7)[:, 0], minlength=7)
    assert np.abs(counts - MANY / 7).max() < 5 * np.sqrt(MANY * 6 / 49)
    chosen = ExampleRandom(0, None, MANY).distinct(0, 3, 5)
    assert all(len(set(row)) == 3 for row in chosen.tolist())
    first = np.bincount(chosen[:, 0], minlength=5)
    assert np.abs(first - MANY / 5).max() < 5 * np.sqrt(MANY * 4 / 25)


def test_ids_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match=r"ids of shape \[3\] came with 4 images"):
        ExampleRandom(0, torch.arange(3), 4)

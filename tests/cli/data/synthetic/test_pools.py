"""No source image serves two parts, and the same seed makes the same parts."""

import pytest
import torch

from tests.cli.data.made_up import splits
from tutelage.errors import UsageError
from tutelage_cli.data.images import Described
from tutelage_cli.data.synthetic.named import Sizes, disjoint_pools, three_parts


def taken(pool, count, seed):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(pool), (count,), generator=generator)
    return Described(pool.rows(rows), {"base": pool.ids[rows]})


def test_halves_of_train_are_disjoint_and_whole():
    data = splits(train=61)
    pools = disjoint_pools(data, seed=3)
    assert (len(pools.train), len(pools.held_out)) == (30, 31)
    both = torch.cat([pools.train.ids, pools.held_out.ids])
    assert sorted(both.tolist()) == list(range(100, 161))
    assert pools.test is data.test
    assert torch.equal(disjoint_pools(data, seed=3).train.ids, pools.train.ids)
    assert not torch.equal(disjoint_pools(data, seed=4).train.ids, pools.train.ids)


def test_parts_have_random_numbers_and_ids_of_their_own():
    pools = disjoint_pools(splits(), seed=0)
    parts = three_parts(taken, pools, Sizes(50, 50, 20), seed=5)
    assert parts.train.images.ids.tolist() == list(range(50))
    assert parts.held_out.images.ids.tolist() == list(range(50, 100))
    assert parts.test.images.ids.tolist() == list(range(20))
    bases = [set(part.facts["base"].tolist()) for part in parts[:2]]
    assert not bases[0] & bases[1]
    again = three_parts(taken, pools, Sizes(50, 50, 20), seed=5)
    for part, same in zip(parts, again, strict=True):
        assert torch.equal(part.images.images, same.images.images)
    other = three_parts(taken, pools, Sizes(50, 50, 20), seed=6)
    assert not torch.equal(parts.train.images.images, other.train.images.images)


def test_an_empty_part_and_a_source_too_small_are_refused():
    with pytest.raises(UsageError, match=r"\(5, 0, 5\).*allowed: 1 and above"):
        three_parts(taken, disjoint_pools(splits(), seed=0), Sizes(5, 0, 5), seed=0)
    with pytest.raises(UsageError, match="1 training images to cut into halves"):
        disjoint_pools(splits(train=1), seed=0)

"""Spoilt pairs: which, how many, and that ends and other pairs stay as they are."""

import pytest
import torch

from papers.data.text import Pairs, masked, mispaired
from tutelage.errors import UsageError
from tutelage_cli.data.text.vocabulary import END, MASK


def pairs(count=400):
    sources = [[10 + n % 7, 20, 30, END] for n in range(count)]
    targets = [[100 + n, 50, END] for n in range(count)]
    return Pairs(sources, targets, torch.arange(count), "made up")


def test_masks_hit_both_sides_of_chosen_pairs_at_the_rate():
    changed, chosen = masked(pairs(), 0.5, 0.3, seed=1)
    again, same = masked(pairs(), 0.5, 0.3, seed=1)
    assert (changed.sources, changed.targets) == (again.sources, again.targets)
    assert torch.equal(chosen, same)
    assert 0.4 < chosen.float().mean() < 0.6
    for before, after in (
        (pairs().sources, changed.sources),
        (pairs().targets, changed.targets),
    ):
        hits = counted = 0
        for old, new, hit in zip(before, after, chosen.tolist(), strict=True):
            assert len(old) == len(new)
            assert new[-1] == END
            assert all(a == b or b == MASK for a, b in zip(old, new, strict=True))
            if not hit:
                assert list(old) == list(new)
            else:
                hits += new.count(MASK)
                counted += len(new) - 1
        assert 0.22 < hits / counted < 0.38


def test_mispaired_takes_the_share_and_never_its_own():
    changed, wrong = mispaired(pairs(), 0.4, seed=3)
    assert int(wrong.sum()) == 160
    for row, (target, hit) in enumerate(zip(changed.targets, wrong.tolist(), strict=True)):
        assert (target[0] != 100 + row) == hit
    assert changed.sources == pairs().sources
    assert torch.equal(changed.ids, pairs().ids)


def test_all_of_two_are_swapped():
    changed, wrong = mispaired(pairs(2), 1.0, seed=0)
    assert [target[0] for target in changed.targets] == [101, 100]
    assert wrong.all()


def test_wrong_rates_are_refused():
    with pytest.raises(UsageError, match=r"q is 1\.5; allowed: 0..1"):
        masked(pairs(4), 0.5, 1.5, seed=0)
    with pytest.raises(UsageError, match="share is -1"):
        mispaired(pairs(4), -1.0, seed=0)
    with pytest.raises(UsageError, match="has 1 pairs"):
        mispaired(pairs(1), 0.5, seed=0)

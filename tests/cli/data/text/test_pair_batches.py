"""Every pair once, with others of like length; what the decoder is given is one behind."""

import pytest
import torch

from papers.data.text import PairBatches, Pairs
from tutelage.errors import UsageError
from tutelage_cli.data.text.vocabulary import END, IGNORED, PAD, START


def batches(count=50, size=4, seed=0):
    sources = [[*range(10, 11 + n % 9), END] for n in range(count)]
    targets = [[*range(30, 31 + (n + 1) % 9), END] for n in range(count)]
    pairs = Pairs(sources, targets, torch.arange(count) + 500, "made up")
    return PairBatches(pairs, size, seed, torch.device("cpu"))


def test_an_epoch_has_every_pair_once_and_is_the_same_again():
    found = list(batches().epoch(2))
    assert len(found) == len(batches()) == 13
    assert sorted(i for b in found for i in b.ids.tolist()) == list(range(500, 550))
    for one, again in zip(found, batches().epoch(2), strict=True):
        assert torch.equal(one.inputs, again.inputs)
        assert one.seed == again.seed
    later = list(batches().epoch(2, start=5))
    assert torch.equal(later[0].ids, found[5].ids)
    other = [b.ids.tolist() for b in batches().epoch(3)]
    assert other != [b.ids.tolist() for b in found]


def test_sides_and_targets_are_padded_each_in_its_way():
    for batch in batches().epoch(0):
        source, given = batch.inputs.unbind(1)
        for row, number in enumerate(batch.ids.tolist()):
            n = number - 500
            kept = source[row][source[row] != PAD].tolist()
            assert kept == [*range(10, 11 + n % 9), END]
            target = batch.targets[row][batch.targets[row] != IGNORED].tolist()
            assert target == [*range(30, 31 + (n + 1) % 9), END]
            assert given[row][: len(target)].tolist() == [START, *target[:-1]]
            assert (given[row][len(target) :] == PAD).all()


def test_pairs_of_a_batch_are_of_like_length():
    spreads = []
    for batch in batches(360, 4).epoch(0):
        lengths = (batch.targets != IGNORED).sum(1)
        spreads.append(int(lengths.max() - lengths.min()))
    assert sum(spreads) / len(spreads) < 2


def test_draws_are_without_repeats_and_whole_is_all():
    drawn = batches().draw(7)
    assert len(set(drawn.ids.tolist())) == 4
    assert torch.equal(drawn.ids, batches().draw(7).ids)
    assert len(batches(count=3).draw(0).ids) == 3
    ids = [i for b in batches().whole(8) for i in b.ids.tolist()]
    assert sorted(ids) == list(range(500, 550))


def test_nothing_to_draw_from_is_refused():
    with pytest.raises(UsageError, match="no pairs left"):
        batches(count=0)
    with pytest.raises(UsageError, match="batch size is 0"):
        batches(size=0)

"""Tests of balanced choices of rows."""

import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.splits import balanced_rows, hold_out, limit_rows

LABELS = torch.arange(100) % 4


def test_chosen_rows_are_balanced_and_the_rest_is_all_others():
    chosen, rest = balanced_rows(LABELS, 20, 4, seed=0)
    assert LABELS[chosen].bincount().tolist() == [5, 5, 5, 5]
    assert sorted(chosen.tolist() + rest.tolist()) == list(range(100))
    assert chosen.tolist() == sorted(chosen.tolist())


def test_a_remainder_is_spread_over_classes():
    chosen, _ = balanced_rows(LABELS, 22, 4, seed=0)
    assert sorted(LABELS[chosen].bincount().tolist()) == [5, 5, 6, 6]


def test_a_remainder_goes_to_classes_that_have_enough():
    labels = torch.tensor([0, 0, 1, 1, 1, 2, 2])
    chosen, _ = balanced_rows(labels, 7, 3, seed=0)
    assert labels[chosen].bincount().tolist() == [2, 3, 2]


def test_the_choice_depends_on_the_seed_alone():
    first, again, other = (balanced_rows(LABELS, 20, 4, seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_every_row_is_as_likely_as_any_other():
    chosen = [balanced_rows(LABELS, 50, 4, seed=seed)[0] for seed in range(300)]
    counts = torch.bincount(torch.cat(chosen), minlength=100)
    # 150 expected of 300; five standard deviations of a fair coin are 43.
    assert (counts - 150).abs().max() < 45


def test_nothing_and_everything_can_be_chosen():
    assert len(balanced_rows(LABELS, 0, 4, seed=0)[0]) == 0
    assert len(balanced_rows(LABELS, 100, 4, seed=0)[1]) == 0


def test_too_many_rows_are_refused():
    with pytest.raises(UsageError, match=r"size is 101; allowed: 0..100"):
        balanced_rows(LABELS, 101, 4, seed=0)
    short = torch.tensor([0, 0, 0, 0, 1])
    with pytest.raises(UsageError, match="need 2 of each, but class 1 has 1"):
        balanced_rows(short, 4, 2, seed=0)


def test_classes_that_no_row_has_are_passed_over():
    gaps = 2 * LABELS
    rows, rest = balanced_rows(gaps, 20, 7, seed=0)
    assert gaps[rows].bincount(minlength=7).tolist() == [5, 0, 5, 0, 5, 0, 5]
    assert len(rest) == 80
    assert gaps[limit_rows(gaps, 12, 7, seed=0)].bincount().tolist() == [3, 0, 3, 0, 3, 0, 3]
    with pytest.raises(UsageError, match="over 2 classes need 2 of each, but class 3 has 1"):
        balanced_rows(torch.tensor([1, 1, 1, 1, 3]), 4, 9, seed=0)


def test_a_limit_keeps_classes_in_balance():
    rows = limit_rows(LABELS, 12, 4, seed=0)
    assert LABELS[rows].bincount().tolist() == [3, 3, 3, 3]
    assert torch.equal(limit_rows(LABELS, 1000, 4, seed=0), torch.arange(100))


def test_a_limit_with_a_short_class_keeps_the_shares():
    labels = torch.tensor([0] * 80 + [1] * 15 + [2] * 5)
    rows = limit_rows(labels, 40, 3, seed=0)
    assert labels[rows].bincount().tolist() == [32, 6, 2]
    assert len(limit_rows(labels, 37, 3, seed=0)) == 37


def test_a_limit_below_one_is_refused():
    with pytest.raises(UsageError, match="limit is 0; allowed: 1 and above"):
        limit_rows(LABELS, 0, 4, seed=0)


def image_set(labels):
    labels = torch.tensor(labels)
    images = torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)
    return ImageSet(images, labels, torch.arange(len(labels)) + 7, ("a", "b", "c"), "toy")


def test_a_fifth_of_every_class_is_held_out():
    splits = hold_out(image_set([0] * 50 + [1] * 10 + [2] * 2))
    assert splits.test.labels.bincount().tolist() == [10, 2, 1]
    ids = torch.cat([splits.train.ids, splits.test.ids])
    assert sorted(ids.tolist()) == list(range(7, 69))


def test_a_lone_image_stays_in_train():
    splits = hold_out(image_set([0, 1, 1]))
    assert splits.train.labels.tolist() == [0, 1]
    with pytest.raises(UsageError, match="toy has no test split and no class with two"):
        hold_out(image_set([0, 1, 2]))

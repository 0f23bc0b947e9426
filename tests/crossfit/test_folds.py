"""Folds hold as much of each class as of any other fold, at most one example apart."""

import pytest
import torch

from tutelage.crossfit import stratified_folds
from tutelage.errors import UsageError


@pytest.mark.parametrize("folds", [2, 3, 5, 7])
@pytest.mark.parametrize("seed", range(3))
def test_sizes_differ_by_one_at_most_in_all_and_in_each_class(folds, seed):
    labels = torch.randint(0, 6, (101,), generator=torch.Generator().manual_seed(seed))
    labels = labels.where(labels != 5, 40)  # any whole numbers
    labels[labels == 4] = 0
    labels[:2] = 9  # a class with fewer members than folds
    found = stratified_folds(labels, folds, seed=seed)
    for members in (found, *(found[labels == c] for c in labels.unique())):
        sizes = torch.bincount(members, minlength=folds)
        assert len(sizes) == folds
        assert int(sizes.max() - sizes.min()) <= 1


def test_the_seed_decides():
    labels = torch.arange(60) % 3
    same = [stratified_folds(labels, seed=s).tolist() for s in (4, 4, 5)]
    assert same[0] == same[1] != same[2]


def test_as_many_folds_as_examples_leave_one_out():
    assert sorted(stratified_folds(torch.zeros(4).long(), 4, seed=0).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("folds", [-1, 0, 1, 5])
def test_too_few_or_too_many_are_refused(folds):
    with pytest.raises(UsageError, match=rf"folds is {folds}; allowed: 2\.\.4"):
        stratified_folds(torch.zeros(4).long(), folds, seed=0)


def test_labels_that_are_none_are_refused():
    with pytest.raises(UsageError, match="labels are float32"):
        stratified_folds(torch.zeros(4), seed=0)

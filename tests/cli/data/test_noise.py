"""Tests of label noise."""

import numpy as np
import pytest
import torch

from tutelage.errors import UsageError
from tutelage_cli.data.noise import (
    KINDS,
    SUPERCLASSES,
    Noise,
    corrupt,
    noise_matrix,
    transition_matrix,
)


def test_texts_name_a_kind_and_a_rate():
    assert Noise.parse("none") == Noise("none", 0.0)
    assert Noise.parse("uniform:0.4") == Noise("uniform", 0.4)
    assert Noise.parse("flip2:1") == Noise("flip2", 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unifrom:0.4", "unknown label noise 'unifrom'. Did you mean 'uniform'"),
        ("uniform:1.5", r"'uniform' is 1.5; allowed: 0..1"),
        ("flip:-0.1", r"'flip' is -0.1; allowed: 0..1"),
        ("flip:nan", r"'flip' is nan; allowed: 0..1"),
        ("none:0.4", r"'none' is 0.4; allowed: 0\."),
        ("uniform", "'uniform' has no rate; write"),
        ("flip:much", "'flip:much' has no rate; write"),
        ("", "unknown label noise ''"),
    ],
)
def test_wrong_texts_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        Noise.parse(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [3, 10])
def test_rows_sum_to_one_and_the_same_seed_gives_the_same_matrix(kind, classes):
    rate = 0.0 if kind == "none" else 0.3
    groups = [0] * classes
    matrix = transition_matrix(kind, rate, classes, groups=groups)
    assert matrix.dtype == torch.float64
    torch.testing.assert_close(matrix.sum(1), torch.ones(classes, dtype=torch.float64))
    again = transition_matrix(kind, rate, classes, seed=1, groups=groups)
    assert torch.equal(matrix, again)


def test_uniform_noise_includes_the_true_class():
    matrix = transition_matrix("uniform", 0.4, 10)
    expected = torch.full((10, 10), 0.04, dtype=torch.float64) + 0.6 * torch.eye(10).double()
    torch.testing.assert_close(matrix, expected)


@pytest.mark.parametrize(("kind", "targets"), [("flip", 1), ("flip2", 2)])
def test_flips_go_to_other_classes_in_equal_parts(kind, targets):
    matrix = transition_matrix(kind, 0.4, 10)
    assert torch.equal(matrix.diagonal(), torch.full((10,), 0.6, dtype=torch.float64))
    off = matrix - matrix.diag().diag()
    assert ((off > 0).sum(1) == targets).all()
    assert set(off.unique().tolist()) == {0.0, 0.4 / targets}
    assert not torch.equal(matrix, transition_matrix(kind, 0.4, 10, seed=2))


def test_flips_are_those_of_the_published_generator():
    # What the published code does with the global generator under the seed 1.
    random, rows = np.random.RandomState(1), np.arange(10)
    one = [int(random.choice(rows[rows != row])) for row in rows]
    random = np.random.RandomState(1)
    two = [sorted(random.choice(rows[rows != row], 2, replace=False).tolist()) for row in rows]
    flip, flip2 = transition_matrix("flip", 1.0, 10), transition_matrix("flip2", 1.0, 10)
    assert flip.argmax(1).tolist() == one
    assert [row.nonzero().flatten().tolist() for row in flip2] == two


@pytest.mark.parametrize(("kind", "classes"), [("flip", 1), ("flip2", 2)])
def test_flips_need_other_classes(kind, classes):
    with pytest.raises(
        UsageError, match=f"needs at least {classes + 1} classes, but there are"
    ):
        transition_matrix(kind, 0.4, classes)


@pytest.mark.parametrize(("kind", "wrong"), [("uniform", 0.36), ("flip", 0.4), ("flip2", 0.4)])
def test_the_share_of_wrong_labels_is_as_stated(kind, wrong):
    labels = torch.arange(20000) % 10
    noisy = corrupt(labels, transition_matrix(kind, 0.4, 10), seed=3)
    # Four standard errors of a share of 20,000.
    assert abs(float((noisy != labels).double().mean()) - wrong) < 4 * 0.5 / 20000**0.5


def test_every_class_is_moved_as_its_row_says():
    matrix = transition_matrix("flip2", 0.5, 5)
    labels = torch.arange(50000) % 5
    noisy = corrupt(labels, matrix, seed=0)
    shares = torch.bincount(labels * 5 + noisy, minlength=25).view(5, 5) / 10000
    # Four standard errors of a share of 10,000.
    torch.testing.assert_close(shares.double(), matrix, atol=0.02, rtol=0)


def test_draws_depend_on_the_seed_alone():
    labels, matrix = torch.arange(1000) % 10, transition_matrix("uniform", 0.8, 10)
    assert torch.equal(corrupt(labels, matrix, seed=1), corrupt(labels, matrix, seed=1))
    assert not torch.equal(corrupt(labels, matrix, seed=1), corrupt(labels, matrix, seed=2))
    assert torch.equal(corrupt(labels, transition_matrix("none", 0.0, 10), seed=1), labels)


def test_hierarchical_noise_stays_within_the_superclass_in_equal_parts():
    groups = [0, 1, 0, 1, 0]
    matrix = transition_matrix("hierarchical", 0.4, 5, groups=groups)
    expected = [[0.6, 0, 0.2, 0, 0.2], [0, 0.6, 0, 0.4, 0], [0.2, 0, 0.6, 0, 0.2]]
    torch.testing.assert_close(matrix[:3], torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(matrix.sum(1), torch.ones(5, dtype=torch.float64))


def test_superclasses_are_five_classes_each_and_found_by_name():
    classes = tuple(sorted(" ".join(SUPERCLASSES.values()).split()))
    assert (len(classes), len(set(classes))) == (100, 100)
    matrix = noise_matrix(Noise("hierarchical", 0.5), classes)
    assert ((matrix > 0).sum(1) == 5).all()
    trout, shark = classes.index("trout"), classes.index("shark")
    assert float(matrix[trout, shark]) == 0.125


@pytest.mark.parametrize("groups", [(), (0, 0, 1)])
def test_hierarchical_noise_without_siblings_is_refused(groups):
    with pytest.raises(UsageError, match="hierarchical"):
        transition_matrix("hierarchical", 0.4, 3, groups=groups)


def test_hierarchical_noise_on_classes_without_superclasses_is_refused():
    with pytest.raises(UsageError, match=r"100 classes of CIFAR-100.*cat, dog"):
        noise_matrix(Noise("hierarchical", 0.4), ("cat", "dog", "emu"))


def test_labels_of_people_are_named_by_whose_they_are():
    assert Noise.parse("human:worst") == Noise("human", 0.0, "worst")

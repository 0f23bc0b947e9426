"""``TaughtClassifier`` as an estimator of scikit-learn, and in cleanlab."""

import functools
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tutelage as tl
from tests.trained import unchecked
from tutelage.errors import UsageError

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

TaughtClassifier = tl.sklearn.TaughtClassifier
NOT_EQUIVALENT = {
    "check_sample_weight_equivalence_on_dense_data": "a weight of 2 is not the same as two "
    "rows in other minibatches, as for scikit-learn's own SGDClassifier"
}


@pytest.mark.parametrize(
    ("estimator", "check"),
    list(
        estimator_checks_generator(
            TaughtClassifier(epochs=10), expected_failed_checks=NOT_EQUIVALENT, mark="xfail"
        )
    ),
    ids=lambda value: value.func.__name__ if isinstance(value, functools.partial) else "",
)
def test_it_is_an_estimator(estimator, check) -> None:
    with unchecked():  # scikit-learn sets parameters to values of every type
        check(estimator)


def digits() -> tuple[Any, ...]:
    """Digits by name, of which four in ten have another's; checked ones; a test set."""
    found: Any = load_digits(return_X_y=True)
    X, y = found[0], np.array([f"digit {label}" for label in found[1]])
    random = np.random.default_rng(0)
    order = random.permutation(len(X))
    X, y = X[order], y[order]
    wrong = random.random(500) < 0.4
    given = np.where(wrong, random.permutation(y[:500]), y[:500])
    return (
        X[:500],
        given,
        X[500:600],
        y[500:600],
        X[600:900],
        y[600:900],
        wrong & (given != y[:500]),
    )


X, Y, X_CHECKED, Y_CHECKED, X_TEST, Y_TEST, WRONG = digits()
CHECKED = {"X_checked": X_CHECKED, "y_checked": Y_CHECKED}


def test_checked_examples_find_labels_that_are_wrong() -> None:
    with unchecked():
        classifier = TaughtClassifier(random_state=0, folds=3).fit(X, Y, **CHECKED)
        plain = TaughtClassifier(random_state=0).fit(X, Y)
    weights = classifier.sample_weight_
    assert weights.shape == (500,)
    assert weights[WRONG].mean() < 0.5 * weights[~WRONG].mean()
    assert plain.sample_weight_ == pytest.approx(np.ones(500))
    assert classifier.score(X_TEST, Y_TEST) > plain.score(X_TEST, Y_TEST)
    assert classifier.classes_.tolist() == sorted(set(Y_TEST))
    assert set(classifier.predict(X_TEST)) <= set(classifier.classes_)


def test_probabilities_are_the_softmax_of_the_student() -> None:
    classifier = TaughtClassifier(random_state=0, epochs=1).fit(X, Y)
    with torch.no_grad():
        logits = classifier.student_(torch.as_tensor(X_TEST)).numpy()
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(classifier.predict_proba(X_TEST), expected, rtol=1e-12)


def test_the_seed_decides_and_pickle_and_clone_keep_what_they_keep() -> None:
    one, other = (TaughtClassifier(random_state=3, epochs=2).fit(X, Y) for _ in range(2))
    probabilities = one.predict_proba(X_TEST)
    assert np.array_equal(probabilities, other.predict_proba(X_TEST))
    third = TaughtClassifier(random_state=4, epochs=2).fit(X, Y)
    assert not np.array_equal(probabilities, third.predict_proba(X_TEST))
    stored = pickle.loads(pickle.dumps(one))
    assert np.array_equal(stored.predict_proba(X_TEST), probabilities)
    fresh: Any = clone(one)
    assert fresh.get_params() == one.get_params()
    assert not hasattr(fresh, "student_")


def test_a_module_of_ones_own_is_trained_in_its_own_numbers() -> None:
    def convolutional(features: int, classes: int) -> nn.Module:
        assert (features, classes) == (64, 10)
        images = nn.Unflatten(1, (1, 8, 8))
        layers = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
        return nn.Sequential(images, *layers)

    classifier = TaughtClassifier(convolutional, random_state=0, epochs=5, lr=0.01)
    right = np.flatnonzero(~WRONG)
    scaled = make_pipeline(StandardScaler(), classifier).fit(X[right], Y[right])
    assert scaled.score(X_TEST, Y_TEST) > 0.8
    assert next(classifier.student_.parameters()).dtype == torch.float32


def test_given_weights_count_and_zero_leaves_an_example_out() -> None:
    given = np.ones(500)
    given[:100], given[100:200] = 0, 2
    classifier = TaughtClassifier(random_state=0, epochs=1)
    weights = classifier.fit(X, Y, sample_weight=given).sample_weight_
    assert (weights[:100] == 0).all()
    np.testing.assert_allclose(weights[100:200].mean() / weights[200:].mean(), 2, rtol=0.1)
    other = TaughtClassifier(random_state=0, epochs=1)
    without = other.fit(X[100:], Y[100:], sample_weight=given[100:])
    assert np.array_equal(without.predict_proba(X), classifier.predict_proba(X))
    taught = other.fit(X, Y, **CHECKED, sample_weight=given).sample_weight_
    assert (taught[:100] == 0).all()
    assert ((taught[100:] > 0) & (taught[100:] < 1)).all()
    assert not np.array_equal(taught, other.fit(X, Y, **CHECKED).sample_weight_)


def test_only_the_ratios_of_sample_weights_count_also_below_single_precision() -> None:
    classifier = TaughtClassifier(epochs=2, random_state=0)
    given = np.random.default_rng(0).random(500)
    large, small = (
        classifier.fit(X, Y, sample_weight=given * scale).predict_proba(X[:20])
        for scale in (1.0, 2.0**-1000)
    )
    assert np.array_equal(large, small)


def test_a_grid_search_passes_checked_examples_on() -> None:
    search = GridSearchCV(
        TaughtClassifier(random_state=0, epochs=1, folds=2), {"batch_size": [20, 100]}, cv=2
    )
    search.fit(X, Y, **CHECKED)
    assert search.best_params_ in ({"batch_size": 20}, {"batch_size": 100})
    assert "checked" in search.best_estimator_.result_.accuracies


def test_cleanlab_trains_it_with_and_without_checked_examples() -> None:
    classification = pytest.importorskip("cleanlab.classification")
    numbers = np.searchsorted(np.unique(Y), Y)
    for given in ({}, {**CHECKED, "y_checked": np.searchsorted(np.unique(Y), Y_CHECKED)}):
        cleaner = classification.CleanLearning(
            TaughtClassifier(random_state=0, epochs=5, folds=2), cv_n_folds=2, verbose=False
        )
        cleaner.fit(X, numbers, clf_kwargs=given)
        issues = cleaner.get_label_issues()["is_label_issue"].to_numpy()
        assert WRONG[issues].mean() > 2 * WRONG[~issues].mean()
        assert cleaner.predict(X_TEST).shape == (300,)
        assert ("checked" in cleaner.clf.result_.accuracies) == bool(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"X_checked": X_CHECKED}, "Give both X_checked and y_checked"),
        ({"X_checked": X_CHECKED[:, :5], "y_checked": Y_CHECKED}, "5 features, but .* 64"),
        ({"X_checked": X_CHECKED, "y_checked": np.arange(100)}, "Mix of label input types"),
        ({"sample_weight": (Y[0] == Y).astype(float)}, "labels are of one class"),
        ({"sample_weight": -np.ones(500)}, "Negative values"),
        ({"sample_weight": (np.arange(500) < 2) * 1.0, **CHECKED}, "batches of one"),
    ],
)
def test_what_does_not_fit_is_refused(given, said) -> None:
    with pytest.raises(ValueError, match=said):
        TaughtClassifier(epochs=1).fit(X, Y, **given)


@pytest.mark.parametrize("folds", ["5", None, 2.5])
def test_folds_that_are_no_number_are_refused(folds) -> None:
    with unchecked(), pytest.raises(UsageError, match=r"folds is .*; allowed: a whole number"):
        TaughtClassifier(epochs=1, folds=folds).fit(X, Y, **CHECKED)


def test_there_are_no_more_folds_than_examples() -> None:
    with unchecked():
        few = TaughtClassifier(epochs=1, random_state=0).fit(X[:4], Y[:4], **CHECKED)
        as_many = TaughtClassifier(epochs=1, random_state=0, folds=4)
        expected = as_many.fit(X[:4], Y[:4], **CHECKED).sample_weight_
    assert np.array_equal(few.sample_weight_, expected)


def test_labels_of_checked_examples_alone_are_classes_too() -> None:
    some = Y != "digit 3"
    classifier = TaughtClassifier(epochs=1, random_state=0).fit(X[some], Y[some], **CHECKED)
    assert "digit 3" in classifier.classes_


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        tl.sklearn.Other  # noqa: B018
    assert issubclass(UsageError, ValueError)

"""Posteriors of labels and confident learning, against counting by hand and cleanlab."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tutelage.crossfit import (
    label_issues,
    label_posterior,
    refined_transitions,
    sharpened,
)
from tutelage.errors import UsageError


def made_up(
    seed: int, rows: int = 60, classes: int = 4, scale: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Probabilities [rows, classes] and given labels that often agree with them."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    p = logits.softmax(1)
    given = torch.multinomial(p, 1, generator=generator).squeeze(1)
    flipped = torch.rand(rows, generator=generator) < 0.3
    given[flipped] = torch.randint(0, classes, (int(flipped.sum()),), generator=generator)
    return p, given


def by_counting(p: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Confident learning example by example, as the paper words it."""
    classes = range(p.shape[1])
    members = {c: [i for i in range(len(p)) if given[i] == c] for c in classes}
    thresholds = {c: np.mean([p[i, c] for i in m]) if m else np.inf for c, m in members.items()}
    wrong = []
    for row, label in zip(p, given, strict=True):
        likely = [c for c in classes if row[c] >= thresholds[c] - 1e-6]
        best = max(likely, key=lambda c: row[c]) if likely else label
        wrong.append(best != label and row.argmax() != label)
    return np.array(wrong)


@pytest.mark.parametrize("seed", range(20))
def test_confident_learning_agrees_with_counting(seed):
    p, given = made_up(seed, scale=1 + seed % 4)
    if seed % 5 == 0:
        given = given.where(given != 2, 3)  # a class that no example is given
    want = by_counting(p.numpy(), given.numpy())
    assert want.any()
    assert label_issues(p, given).numpy().tolist() == want.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_confident_learning_is_cleanlabs_but_for_the_documented_rows(seed):
    filtered = pytest.importorskip("cleanlab.filter")
    p, given = made_up(seed, rows=400)
    want = filtered.find_label_issues(
        given.numpy(), p.numpy(), filter_by="confident_learning", n_jobs=1
    )
    thresholds = torch.stack([p[given == c, c].mean() for c in range(4)])
    likely = p >= thresholds - 1e-6
    top_is_likely = likely.gather(1, p.argmax(1, keepdim=True)).squeeze(1)
    same = top_is_likely | (likely.sum(1) < 2)
    found = label_issues(p, given)
    assert want.sum() > 20
    assert float(same.float().mean()) > 0.9
    assert found[same].tolist() == want[same.numpy()].tolist()


def test_the_posterior_is_bayes_rule_worked_out_by_hand():
    p = torch.tensor([[0.6, 0.4], [0.6, 0.4]], dtype=torch.float64)
    transitions = torch.tensor([[0.9, 0.1], [0.3, 0.7]], dtype=torch.float64)
    found = label_posterior(p, transitions, torch.tensor([0, 1]))
    want = [[0.54 / 0.66, 0.12 / 0.66], [0.06 / 0.34, 0.28 / 0.34]]
    torch.testing.assert_close(found, torch.tensor(want, dtype=torch.float64))


def test_a_label_that_no_likely_class_is_given_leaves_the_prediction():
    p = torch.tensor([[1.0, 0.0], [0.3, 0.7]])
    found = label_posterior(p, torch.eye(2), torch.tensor([1, 1]))
    assert found.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_sharpening_squares_and_keeps_the_precision(dtype):
    p = torch.tensor([[0.5, 0.25, 0.25]], dtype=dtype)
    found = sharpened(p)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    assert found[0].tolist() == pytest.approx([2 / 3, 1 / 6, 1 / 6], rel=1e-6)
    assert sharpened(p, 1.0)[0].tolist() == pytest.approx([0.5, 0.25, 0.25])


def test_sharpening_many_classes_does_not_underflow():
    p = torch.full((1, 10**5), 1e-5)
    assert sharpened(p, 20.0).sum().item() == pytest.approx(1.0, rel=1e-4)


TRANSITIONS = torch.tensor(
    [[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.2, 0.0, 0.8]], dtype=torch.float64
)
ROUGH = 0.6 * torch.eye(3, dtype=torch.float64) + 0.4 / 3


def noisy(rows: int) -> tuple[Tensor, Tensor]:
    """Probabilities that are right as such, and labels drawn by them and the transitions."""
    generator = torch.Generator().manual_seed(0)
    p = (2 * torch.randn(rows, 3, generator=generator, dtype=torch.float64)).softmax(1)
    right = torch.multinomial(p, 1, generator=generator).squeeze(1)
    given = torch.multinomial(TRANSITIONS[right], 1, generator=generator).squeeze(1)
    return p, given


def test_each_refinement_is_one_step_worked_out_by_hand_and_raises_the_likelihood():
    p, given = noisy(300)
    want = 2.0 * ROUGH.clone()
    for row, label in zip(p, given.tolist(), strict=True):
        want[:, label] += row
    want = want / want.sum(1, keepdim=True)
    found = refined_transitions(p, ROUGH, given, prior_count=2.0)
    torch.testing.assert_close(found, want)
    again = 2.0 * ROUGH.clone()
    for row, label in zip(p, given.tolist(), strict=True):
        joint = row * want[:, label]
        again[:, label] += joint / joint.sum()
    found = refined_transitions(p, ROUGH, given, steps=1, prior_count=2.0)
    torch.testing.assert_close(found, again / again.sum(1, keepdim=True))
    likelihoods = []
    for steps in range(8):
        c = refined_transitions(p, ROUGH, given, steps=steps, prior_count=0.0)
        likelihoods.append(float((p @ c)[range(300), given].log().sum()))
    assert likelihoods == sorted(likelihoods)
    assert likelihoods[-1] > likelihoods[0] + 1


def test_sure_predictions_show_the_transitions_without_a_step():
    generator = torch.Generator().manual_seed(0)
    right = torch.randint(0, 3, (20000,), generator=generator)
    given = torch.multinomial(TRANSITIONS[right], 1, generator=generator).squeeze(1)
    found = refined_transitions(torch.eye(3).double()[right], ROUGH, given, prior_count=0.0)
    torch.testing.assert_close(found, TRANSITIONS, rtol=0, atol=0.02)


def test_many_examples_show_the_transitions_that_made_the_labels():
    p, given = noisy(20000)
    found = refined_transitions(p, ROUGH, given, steps=40, prior_count=0.0)
    assert (ROUGH - TRANSITIONS).abs().max() > 0.2
    torch.testing.assert_close(found, TRANSITIONS, rtol=0, atol=0.03)


def test_a_large_prior_or_no_example_of_a_class_keeps_what_was_given():
    p, given = noisy(50)
    held = refined_transitions(p, ROUGH, given, prior_count=1e9)
    torch.testing.assert_close(held, ROUGH, rtol=0, atol=1e-6)
    two = torch.cat([p[:, :2] / p[:, :2].sum(1, keepdim=True), torch.zeros(50, 1)], 1)
    found = refined_transitions(two, ROUGH, given, prior_count=0.0)
    assert torch.equal(found[2], ROUGH[2])
    torch.testing.assert_close(found.sum(1), torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("options", [{"steps": -1}, {"prior_count": -1.0}])
def test_no_step_and_a_negative_prior_are_refused(options):
    with pytest.raises(UsageError, match=r"steps is -?\d and prior_count -?\d+; allowed: 0"):
        refined_transitions(torch.eye(2), torch.eye(2), torch.tensor([0, 1]), **options)


GOOD = [[0.5, 0.5], [0.2, 0.8]]
WRONG = {
    "a sum of two": ([[1.0, 1.0]], [0], "row 0 of probabilities is no distribution.*sum 2"),
    "negative": ([[0.5, 0.5], [1.5, -0.5]], [0, 0], "row 1.*least number is -0.5"),
    "not a number": ([[float("nan"), 1.0]], [0], "row 0 of probabilities is no distribution"),
    "whole numbers": ([[1, 0]], [0], "probabilities are int64 of shape"),
    "a class too many": (GOOD, [0, 2], r"row 1 of given is 2; allowed: 0\.\.1"),
    "too few labels": (GOOD, [0], "one class id for each of 2 rows"),
    "real labels": (GOOD, [0.0, 1.0], "given are float32.*whole numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_probability_or_label_is_refused(name):
    p, given, message = WRONG[name]
    with pytest.raises(UsageError, match=message):
        label_issues(torch.tensor(p), torch.tensor(given))


def test_a_power_and_transitions_that_are_none_are_refused():
    p = torch.tensor(GOOD)
    with pytest.raises(UsageError, match="power is 0; allowed: above 0"):
        sharpened(p, 0.0)
    with pytest.raises(UsageError, match=r"transitions have shape \(3, 3\); allowed: \(2, 2\)"):
        label_posterior(p, torch.eye(3), torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="row 1 of transitions is no distribution"):
        label_posterior(p, torch.tensor([[1.0, 0.0], [0.5, 0.1]]), torch.tensor([0, 1]))

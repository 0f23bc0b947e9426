"""The threshold keeps what it promises where its assumption holds."""

import numpy as np
import pytest

from tutelage_cli.inspect.threshold import by_majority, limit, p_values, smallest_fpr


@pytest.mark.parametrize("seed", range(5))
def test_p_values_count_clean_examples_that_are_doubted_as_much(seed) -> None:
    random = np.random.default_rng(seed)
    scores, clean = (
        random.integers(0, 9, 40).astype(float),
        random.integers(0, 9, 23) * 1.0,
    )
    wanted = [(1 + sum(c >= d for c in clean)) / 24 for d in scores]
    np.testing.assert_allclose(p_values(scores, clean), wanted)


@pytest.mark.parametrize("share", [0.05, 0.1, 1 / 24, 0.5])
@pytest.mark.parametrize("values", [9, 10**6])
def test_the_limit_says_the_same_as_the_p_values(share, values) -> None:
    random = np.random.default_rng(values)
    scores = random.integers(0, values, 400).astype(float)
    clean = random.integers(0, values, 23).astype(float)
    flagged = p_values(scores, clean) <= share + 1e-12
    assert np.array_equal(flagged, scores > limit(clean, share))


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_right_labels_like_the_clean_ones_are_accused_at_the_promised_rate(share) -> None:
    random = np.random.default_rng(0)
    rates = [
        (p_values(random.gumbel(size=300), random.gumbel(size=199)) <= share).mean()
        for _ in range(400)
    ]
    # exact on average, as share * 200 is whole: five standard errors of the mean of 400 draws
    assert np.mean(rates) == pytest.approx(share, abs=float(np.std(rates)) / 4)


def test_fewer_clean_examples_than_the_share_needs_accuse_nothing() -> None:
    assert smallest_fpr(99) == 0.01
    scores = np.full(3, np.inf)
    assert (p_values(scores, np.zeros(99)) <= 0.01).all()
    assert not (p_values(scores, np.zeros(98)) <= 0.01).any()


def test_a_majority_is_more_than_half_of_those_who_know_the_label() -> None:
    yes, no = True, False
    flagged = [np.array(says) for says in ([yes, yes, yes], [yes, no], [no])]
    places = [np.array(at) for at in ([0, 1, 2], [0, 1], [1])]
    # label 0: 2 of 2; label 1: 1 of 3; label 2: 1 of 1; label 3: nobody
    assert by_majority(flagged, places, 4).tolist() == [yes, no, yes, no]

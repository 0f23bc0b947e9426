"""Rounds of folds: who is trained on what, and when a round is no longer kept."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tutelage.crossfit import (
    ForwardCorrected,
    Training,
    cross_fit,
    estimate_transitions,
    label_posterior,
    refined_transitions,
    stratified_folds,
)
from tutelage.errors import UsageError
from tutelage.losses.objectives import cross_entropy

N, C = 30, 3
GIVEN = torch.arange(N) % C
FOLDS = stratified_folds(GIVEN, 3, seed=0)
CHECKED = torch.tensor([4, 17, 29])
RIGHT = torch.tensor([1, 1, 2])


class Fits:
    """A fit that remembers its calls; the right class has the probability of its round."""

    def __init__(self, *by_round: float) -> None:
        self.calls: list[tuple[Training, Tensor, int]] = []
        self.by_round = by_round

    def __call__(self, training: Training, predict: Tensor, fold: int) -> Tensor:
        self.calls.append((training, predict, fold))
        p = self.by_round[max(len(self.calls) - 2, 0) // 3]
        right = GIVEN.index_copy(0, CHECKED, RIGHT)[predict]
        off = (1 - p) / (C - 1)
        return off + (p - off) * F.one_hot(right, C)


def fitted(fits: Fits, **options):
    return cross_fit(fits, GIVEN, FOLDS, CHECKED, RIGHT, classes=C, **options)


def test_round_0_is_corrected_by_what_the_checked_examples_show():
    fits = Fits(0.6)
    found = fitted(fits, rounds=1, refine=False)
    first, predicted, number = fits.calls[0]
    unchecked = torch.ones(N, dtype=torch.bool).index_fill(0, CHECKED, False)
    assert torch.equal(first.rows, unchecked.nonzero().squeeze(1))
    assert torch.equal(first.targets, GIVEN[unchecked])
    assert (predicted.tolist(), number) == (CHECKED.tolist(), 3)
    seen = 0.2 + 0.4 * F.one_hot(RIGHT, C)
    torch.testing.assert_close(found.transitions, estimate_transitions(seen, RIGHT))
    for training, predict, fold in fits.calls[1:]:
        assert torch.equal(predict, torch.eq(FOLDS, fold).nonzero().squeeze(1))
        wanted = (FOLDS.ne(fold) & unchecked).nonzero().squeeze(1)
        assert torch.equal(training.rows, wanted)
        assert isinstance(training.objective, ForwardCorrected)
        assert torch.equal(training.objective.transitions, found.transitions)
    assert len(fits.calls) == 4
    assert found.kept == 0
    p = found.probabilities[0]
    wanted = label_posterior(p, found.transitions, GIVEN.index_fill(0, CHECKED, 0))
    torch.testing.assert_close(found.targets[unchecked], wanted[unchecked])
    assert torch.equal(found.targets[CHECKED], F.one_hot(RIGHT, C).float())
    assert found.weights.tolist() == [1.0] * N


def test_the_second_round_is_corrected_by_transitions_that_all_examples_refine():
    fits = Fits(0.6, 0.7)
    found = fitted(fits, rounds=2, corrected=2)
    rest = torch.ones(N, dtype=torch.bool).index_fill(0, CHECKED, False)
    shown = estimate_transitions(0.2 + 0.4 * F.one_hot(RIGHT, C), RIGHT)
    first, second = (
        refined_transitions(p[rest], shown, GIVEN[rest]) for p in found.probabilities
    )
    assert len(fits.calls) == 7
    for training, _, fold in fits.calls[4:]:
        assert torch.equal(training.rows, (FOLDS.ne(fold) & rest).nonzero().squeeze(1))
        assert isinstance(training.objective, ForwardCorrected)
        torch.testing.assert_close(training.objective.transitions, first)
    torch.testing.assert_close(found.transitions, second)


def test_a_later_round_is_trained_on_what_the_round_before_says_and_never_on_its_own_fold():
    fits = Fits(0.6, 0.7)
    found = fitted(fits, rounds=2, refine=False)
    before = label_posterior(
        found.probabilities[0], found.transitions, GIVEN.index_fill(0, CHECKED, 0)
    )
    before[CHECKED] = F.one_hot(RIGHT, C).float()
    for training, _, fold in fits.calls[4:]:
        assert torch.equal(training.rows, FOLDS.ne(fold).nonzero().squeeze(1))
        torch.testing.assert_close(training.targets, before[training.rows])
        assert training.objective is cross_entropy
    assert (len(found.probabilities), found.kept) == (2, 1)
    assert found.log_likelihoods == pytest.approx(torch.tensor([0.6, 0.7]).log().tolist())


def test_a_round_after_which_the_checked_are_less_likely_is_not_kept_and_the_last():
    fits = Fits(0.6, 0.7, 0.65, 0.9)
    found = fitted(fits, rounds=4, corrected=1)
    assert (len(found.probabilities), found.kept) == (3, 1)
    expected = fitted(Fits(0.6, 0.7), rounds=2, corrected=1)
    torch.testing.assert_close(found.targets, expected.targets)


def test_a_fall_within_two_standard_errors_goes_on():
    def fit(training: Training, predict: Tensor, fold: int) -> Tensor:  # noqa: ARG001 - the seam
        corrected = training.objective is not cross_entropy
        by_row = torch.full((N,), 0.5)
        if not corrected:  # two of three rise, one falls more
            by_row[CHECKED] = torch.tensor([0.6, 0.6, 0.1])
        p, right = by_row[predict], GIVEN.index_copy(0, CHECKED, RIGHT)[predict]
        off = ((1 - p) / (C - 1))[:, None]
        return off + (p[:, None] - off) * F.one_hot(right, C)

    found = cross_fit(fit, GIVEN, FOLDS, CHECKED, RIGHT, classes=C, rounds=2, corrected=1)
    assert found.log_likelihoods[1] < found.log_likelihoods[0]
    assert found.kept == 1


def test_targets_and_weights_may_be_those_of_a_teacher_but_for_the_checked():
    uniform = torch.full((N, C), 1 / C)
    found = fitted(Fits(0.6), rounds=1, retarget=lambda p, c: (uniform, 0.25 * uniform[:, 0]))  # noqa: ARG005
    assert torch.equal(found.targets[CHECKED], F.one_hot(RIGHT, C).float())
    assert found.targets[0].tolist() == pytest.approx([1 / 3] * 3)
    assert found.weights[CHECKED].tolist() == [1.0] * 3
    assert found.weights[0].item() == pytest.approx(1 / 12)
    assert uniform[CHECKED[0], 0].item() == pytest.approx(1 / 3)  # the caller's own stay


def test_it_finds_right_labels_that_a_plain_student_does_not():
    """Two of five labels of each class are flipped to the next one; a linear student."""
    generator = torch.Generator().manual_seed(100)
    x = torch.randn(900, 6, generator=generator)
    y = x[:, :C].argmax(1)
    given = torch.where(torch.rand(900, generator=generator) < 0.4, (y + 1) % C, y)

    def fit(training: Training, predict: Tensor, fold: int) -> Tensor:
        torch.manual_seed(fold)
        net = torch.nn.Sequential(
            torch.nn.Linear(6, 64), torch.nn.ReLU(), torch.nn.Linear(64, C)
        )
        rule = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(60):
            losses = training.objective(net(x[training.rows]), training.targets)
            loss = (training.weights * losses).sum() / training.weights.sum()
            rule.zero_grad()
            loss.backward()
            rule.step()
        with torch.no_grad():
            return net(x[predict]).softmax(1)

    folds, checked = stratified_folds(given, 3, seed=0), torch.arange(30)
    found = cross_fit(fit, given, folds, checked, y[:30], classes=C)
    rest = torch.arange(900) >= 30
    right = (found.targets.argmax(1) == y)[rest].float().mean()
    assert float((given == y)[rest].float().mean()) < 0.65
    assert float(right) > 0.85


def test_rounds_that_are_done_are_not_trained_again(tmp_path):
    first, again = Fits(0.6, 0.7), Fits(0.6, 0.7)
    found = fitted(first, cache=tmp_path, key="k")
    same = fitted(again, cache=tmp_path, key="k")
    assert (len(first.calls), len(again.calls)) == (7, 1)  # the transitions' student alone
    assert torch.equal(found.targets, same.targets)
    other = Fits(0.6, 0.7)
    fitted(other, cache=tmp_path, key="k", prior_count=2.0)
    assert len(other.calls) == 7


REFUSED = {
    "no round": (CHECKED, RIGHT, {"rounds": 0}, "rounds is 0 and corrected 1; allowed: 1"),
    "no corrected round": (CHECKED, RIGHT, {"corrected": 0}, "corrected 0; allowed: 1"),
    "a row twice": (CHECKED.where(CHECKED != 4, 17), RIGHT, {}, "names 3 rows, 2 of them diff"),
    "none": (CHECKED[:0], RIGHT[:0], {}, "names 0 rows"),
    "a row beyond": (CHECKED + 1, RIGHT, {}, r"row 2 of checked is 30; allowed: 0\.\.29"),
    "a class beyond": (CHECKED, RIGHT + 1, {}, "row 2 of checked_labels is 3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_checked_example_or_round_is_refused(name):
    checked, right, options, message = REFUSED[name]
    with pytest.raises(UsageError, match=message):
        cross_fit(Fits(0.6), GIVEN, FOLDS, checked, right, classes=C, **options)


def test_what_a_round_is_given_has_to_fit() -> None:
    given, folds = torch.tensor([0, 1] * 5), torch.tensor([0, 0, 1, 1, 0] * 2)
    checked, right = torch.tensor([0, 1], dtype=torch.uint8), torch.tensor([0, 1])

    def fit(_: object, predict: Tensor, __: int) -> Tensor:
        return torch.full((len(predict), 2), 0.5)

    assert len(cross_fit(fit, given, folds, checked, right, classes=2).targets) == 10
    with pytest.raises(UsageError, match="fit predicts 2 classes, but classes is 3"):
        cross_fit(fit, given, folds, checked, right, classes=3)
    with pytest.raises(UsageError, match="one fold for each example"):
        cross_fit(fit, given, folds[:9], checked, right, classes=2)
    for targets, weights in (
        (torch.full((10, 2), torch.nan), torch.ones(10)),
        (torch.full((10, 2), 0.5), -torch.ones(10)),
        (torch.full((5, 2), 0.5), torch.ones(10)),
    ):
        with pytest.raises(UsageError, match=r"of retarget|retarget gives"):
            cross_fit(
                *(fit, given, folds, checked, right),
                classes=2,
                retarget=lambda *_, t=targets, w=weights: (t, w),
            )

"""Cross-fitting in rounds: who is trained on what, and what is made of the predictions."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.trained import unchecked
from tutelage.crossfit import (
    FoldPredictions,
    FoldTraining,
    ForwardCorrected,
    cross_fit,
    estimate_transitions,
    label_posterior,
    refined_transitions,
    stratified_folds,
)
from tutelage.crossfit.chance import Predicted
from tutelage.crossfit.fold_settings import FULL_RUN, TRIED, distilled_tried
from tutelage.crossfit.likelihoods import (
    TEMPERATURES,
    calibrated_log_likelihood,
    given_log_likelihood,
)
from tutelage.crossfit.stages import FoldStages, StagePredictions
from tutelage.errors import UsageError
from tutelage.losses.objectives import cross_entropy

N, C, FOLDS = 30, 3, 3
GIVEN = torch.arange(N) % C
FOLD = stratified_folds(GIVEN, FOLDS, seed=0)
CHECKED = torch.tensor([1, 1, 2, 0, 0, 2, 1])


def likely(labels: Tensor, p: float) -> Tensor:
    off = (1 - p) / (C - 1)
    return off + (p - off) * F.one_hot(labels, C)


class Fits:
    """A fit that remembers its calls; right classes have the probability of their stage."""

    def __init__(self, plain: float = 0.5, corrected: float = 0.6, distilled: float = 0.7):
        self.calls: list[FoldTraining] = []
        self.by_stage = {"plain": plain, "corrected": corrected, "distilled": distilled}
        self.trials = dict(zip(TRIED, (0.4, 0.5, plain, 0.3), strict=True)) | {FULL_RUN: plain}

    def __call__(self, training: FoldTraining) -> FoldPredictions:
        stage = training.name.split("-")[0]
        p = self.trials[training.settings] if stage == "trial" else self.by_stage[stage]
        self.calls.append(training)
        return FoldPredictions(likely(GIVEN[training.fold == FOLD], p), likely(CHECKED, p))


def fitted(fits: Callable[[FoldTraining], Any], **settings: Any) -> Any:
    return cross_fit(fits, GIVEN, FOLD, CHECKED, **settings)


def test_every_stage_trains_on_the_other_folds() -> None:
    fits = Fits(plain=0.6)
    found = fitted(fits)
    trials, plain = fits.calls[:4], fits.calls[4:6]
    corrected, decays, distilled = fits.calls[6:9], fits.calls[9:11], fits.calls[11:]
    assert [one.settings for one in trials] == list(TRIED)
    assert {one.fold for one in trials} == {0}
    assert found.settings == TRIED[2]
    assert {one.settings for one in plain} == {TRIED[2]}
    assert len({one.name for one in fits.calls}) == len(fits.calls) == 4 + 2 + 2 * FOLDS + 2
    for stage in (trials[:1] + plain, corrected, distilled):
        assert [one.fold for one in stage] == [0, 1, 2]
    for one in fits.calls:
        assert torch.equal(one.rows[one.rows < N], FOLD.ne(one.fold).nonzero()[:, 0])
    for one in trials + plain + corrected:
        assert torch.equal(one.targets, GIVEN)
    assert {one.objective for one in trials + plain + decays + distilled} == {cross_entropy}
    assert [one.start for one in corrected] == [trials[2].name, plain[0].name, plain[1].name]
    assert not any(one.start for one in trials + plain + decays + distilled)
    for one, decay in zip(decays, (30, 7.5), strict=True):
        assert (one.fold, one.settings.share, one.settings.decay_factor) == (0, 1 / 3, decay)
        assert torch.equal(one.rows, FOLD.ne(0).nonzero()[:, 0])  # no checked example
        assert torch.equal(one.targets, distilled[0].targets)


@pytest.mark.parametrize(
    ("better", "decay"), [("distilled-trial-7.5", 7.5), ("distilled-trial-30", 30), ("", 30)]
)
def test_students_of_posteriors_have_less_decay_where_checked_examples_show_it_better(
    better, decay
) -> None:
    fits = Fits(plain=0.6)

    def fit(training: FoldTraining) -> FoldPredictions:
        own, checked = fits(training)
        trial = training.name.startswith("distilled-trial")
        if trial and better and training.name != better:
            checked = likely((CHECKED + 1) % C, 0.7)
        return FoldPredictions(own, checked)

    found = fitted(fit)
    assert {one.settings.decay_factor for one in fits.calls[11:]} == {decay}
    assert (found.settings.decay_factor, found.decay_factor) == (30, decay)
    once = fitted(Fits(plain=0.6), rounds=1)
    assert once.decay_factor == 30


@pytest.mark.parametrize(
    ("gained", "decay", "errors"), [(26, 7.5, (1, 2)), (22, 30, (0, 1)), (34, 7.5, (2, 9))]
)
def test_one_standard_error_decides_on_the_decay_of_students_of_posteriors(
    gained, decay, errors
) -> None:
    checked = torch.zeros(40, dtype=torch.long)
    stages = FoldStages(GIVEN, FOLD, checked)
    first = likely(torch.arange(40) % 2, 0.7)  # right in 20 of 40
    other = likely((torch.arange(40) >= gained).long(), 0.7)
    gains = calibrated_log_likelihood(other, checked)
    gains -= calibrated_log_likelihood(first, checked)
    assert errors[0] < float(gains.mean() / (gains.std() / 40**0.5)) < errors[1]
    plain, quarter = distilled_tried(TRIED[2])
    assert stages.distilled_choice({plain: first, quarter: other}).decay_factor == decay


def test_there_is_nothing_to_try_where_plain_students_have_the_decay_of_the_run() -> None:
    fits = Fits(plain=0.45)  # the second trial is the best
    found = fitted(fits)
    assert found.settings == TRIED[1]
    assert len(fits.calls) == 4 + 2 + 2 * FOLDS + 1
    assert found.decay_factor == 1


@pytest.mark.parametrize("better", [True, False])
@pytest.mark.parametrize("longest", [True, False])
def test_given_labels_are_taken_where_longer_training_on_them_predicts_better(
    better, longest
) -> None:
    fits = Fits(plain=0.45 if longest else 0.6)

    def fit(training: FoldTraining) -> FoldPredictions:
        own, _ = fits(training)
        good = (training.settings == FULL_RUN) == better
        return FoldPredictions(own, likely(CHECKED if good else (CHECKED + 1) % C, 0.7))

    found = fitted(fit)
    trained = [one for one in fits.calls if one.settings == FULL_RUN]
    assert [(one.fold, one.settings.steps(1000)) for one in trained] == [(0, 1000)] * longest
    assert (found.selected, found.train_on_given_labels) == (2, longest and better)
    assert found.decay_factor == (1 if longest else 30)
    assert found.accuracy == (1 if longest or not better else 0)


def predicted(tenths: int) -> StagePredictions:
    """Right in so many tenths of the examples."""
    labels = torch.where(torch.arange(N) // C < tenths, GIVEN, (GIVEN + 1) % C)
    return StagePredictions(likely(labels, 0.7), likely(CHECKED, 0.7), likely(CHECKED, 0.7))


@pytest.mark.parametrize(
    ("tenths", "correct"),
    [((5, 8, 9), True), ((5, 6, 9), False), ((8, 6, 5), False), ((5, 8), False)],
)
def test_the_loss_is_corrected_where_correction_gained_more_than_distillation(
    tenths, correct
) -> None:
    data, stages = FoldStages(GIVEN, FOLD, CHECKED), [*map(predicted, tenths)]
    table = data.refined_transitions(stages[1], stages[0]).double()
    means = []
    for stage in stages:
        by_temperature = []
        for temperature in TEMPERATURES:
            p = (stage.train.double() ** (1 / temperature)).T
            likelihoods = ((p / p.sum(0)).T * table[:, GIVEN].T).sum(1)
            by_temperature.append(float(likelihoods.log().mean()))
        means.append(max(by_temperature))
        found = given_log_likelihood(stage.train, GIVEN, table)
        assert float(found.mean()) == pytest.approx(means[-1], abs=1e-4)
    if len(means) > 2:
        assert (means[1] - means[0] > max(0, means[2] - means[1])) == correct
    assert data.gains_by_correction(stages) == correct
    result = data.result(TRIED[2], 30.0, stages)
    assert result.correct_loss == (correct and not result.train_on_given_labels)


def test_targets_and_transitions_are_those_of_the_stages_before() -> None:
    fits = Fits(plain=0.6)
    found = fitted(fits)
    rough = estimate_transitions(likely(CHECKED, 0.6), CHECKED, shrinkage=0.3)
    for one in fits.calls[6:9]:
        assert isinstance(one.objective, ForwardCorrected)
        torch.testing.assert_close(one.objective.transitions, rough)
        assert (one.settings.share, one.settings.decay_factor) == (1 / 6, 15)
    p = likely(GIVEN, 0.6)
    believed = label_posterior(p, refined_transitions(p, rough, GIVEN), GIVEN)
    for one in fits.calls[11:]:
        torch.testing.assert_close(one.targets[:N], believed)
        assert torch.equal(one.targets[N:], F.one_hot(CHECKED, C).float())
        assert (one.settings.share, one.settings.decay_factor) == (1 / 6, 30)
    p = likely(GIVEN, 0.7)
    assert found.selected == 2
    torch.testing.assert_close(found.stages[2].train, p)
    torch.testing.assert_close(found.transitions, refined_transitions(p, rough, GIVEN))
    torch.testing.assert_close(found.posterior, label_posterior(p, found.transitions, GIVEN))
    assert found.accuracy == 1


def test_one_round_has_no_distilled_students() -> None:
    fits = Fits(plain=0.6)
    found = fitted(fits, rounds=1)
    assert len(fits.calls) == 4 + 2 + FOLDS
    assert (len(found.stages), found.selected) == (2, 1)


def test_no_checked_example_is_predicted_by_a_student_that_its_label_reached() -> None:
    # students of all but the distilled stage see none at all, these only those of other folds
    fits = Fits()
    seen = dict[int, set[int]]()

    def fit(training: FoldTraining) -> FoldPredictions:
        rows = training.rows[training.rows >= N] - N
        distilled = training.name.startswith("distilled-") and "trial" not in training.name
        assert bool(len(rows)) == distilled
        own, _ = fits(training)
        checked = torch.full((len(CHECKED), C), 1 / C)
        checked[rows] = likely(CHECKED[rows], 0.9)
        if distilled:
            seen[training.fold] = set(rows.tolist())
            assert torch.equal(rows.bincount().unique(), torch.tensor([0, 3]))
        return FoldPredictions(own, checked)

    found = fitted(fit)
    for stage in found.stages:  # what is told by those that saw them does not come in
        wanted = torch.full((len(CHECKED), C), 1 / C)
        torch.testing.assert_close(stage.checked, wanted, check_dtype=False)
    assert set.union(*seen.values()) == set(range(len(CHECKED)))
    assert not set.intersection(*seen.values())


@pytest.mark.parametrize(
    ("worse", "kept"),
    [(("distilled",), 1), (("corrected", "distilled"), 0), (("corrected",), 2), ((), 2)],
)
def test_a_stage_that_is_shown_to_be_worse_is_not_kept(worse, kept) -> None:
    # calibration takes away how sure students are: worse ones take each class for the next
    def fit(training: FoldTraining) -> FoldPredictions:
        fails = training.name.startswith(worse) if worse else False
        checked = (CHECKED + 1) % C if fails else CHECKED
        return FoldPredictions(likely(GIVEN[training.fold == FOLD], 0.6), likely(checked, 0.6))

    assert fitted(fit).selected == kept


def test_trials_may_diverge_and_others_may_not() -> None:
    def fit(training: FoldTraining) -> FoldPredictions:
        p = torch.nan if training.name in failing else 0.6
        return FoldPredictions(*(likely(y, p) for y in (GIVEN[training.fold == FOLD], CHECKED)))

    failing = [f"trial-0.333-{decay}" for decay in (1, 60)]
    assert fitted(fit).settings == TRIED[0]
    failing = [f"trial-0.{rest}" for rest in ("167-1", "333-1", "333-30", "333-60")]
    with pytest.raises(UsageError, match="that try settings diverged"):
        fitted(fit)
    failing = ["plain-2"]
    with pytest.raises(UsageError, match="predictions of plain-2 is no distribution"):
        fitted(fit)
    failing = ["corrected-1"]
    with pytest.raises(UsageError, match="predictions of corrected-1 is no distribution"):
        fitted(fit)


def test_longer_training_may_diverge_and_is_to_give_distributions() -> None:
    fits, share = Fits(plain=0.45), torch.nan

    def fit(training: FoldTraining) -> FoldPredictions:
        own, checked = fits(training)
        longer = training.settings == FULL_RUN
        return FoldPredictions(own * share if longer else own, checked)

    assert not fitted(fit).train_on_given_labels
    fits, share = Fits(plain=0.45), 100.0
    with pytest.raises(UsageError, match="predictions of trial-1-1 is no distribution"):
        fitted(fit)


def test_it_finds_right_labels_that_a_plain_student_does_not() -> None:
    """Two of five labels of each class are flipped to the next one; a small network."""
    generator = torch.Generator().manual_seed(100)
    x = torch.randn(900, 6, generator=generator)
    y = x[:, :C].argmax(1)
    given = torch.where(torch.rand(900, generator=generator) < 0.4, (y + 1) % C, y)
    given, inputs, right = given[30:], x[30:], y[:30]
    both = torch.cat([inputs, x[:30]])
    folds, students = stratified_folds(given, 3, seed=0), dict[str, torch.nn.Module]()

    def fit(training: FoldTraining) -> FoldPredictions:
        torch.manual_seed(training.fold)
        net = torch.nn.Sequential(
            torch.nn.Linear(6, 64), torch.nn.ReLU(), torch.nn.Linear(64, C)
        )
        if training.start:
            net = deepcopy(students[training.start])
        rule = torch.optim.AdamW(
            net.parameters(), lr=0.01, weight_decay=0.01 * training.settings.decay_factor
        )
        for _ in range(training.settings.steps(180)):
            logits = net(both[training.rows])
            loss = training.objective(logits, training.targets[training.rows]).mean()
            rule.zero_grad()
            loss.backward()
            rule.step()
        students[training.name] = net
        with torch.no_grad():
            own, checked = inputs[folds == training.fold], x[:30]
            return FoldPredictions(net(own).softmax(1), net(checked).softmax(1))

    found = cross_fit(fit, given, folds, right)
    assert float((given == y[30:]).float().mean()) < 0.65
    assert float((found.posterior.argmax(1) == y[30:]).float().mean()) > 0.85


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GIVEN, FOLD[:9], CHECKED), "one fold for each example"),
        ((GIVEN, FOLD * 0, CHECKED), "two folds and above"),
        ((GIVEN, FOLD, CHECKED[:0]), "there is no checked example"),
        ((GIVEN, FOLD, CHECKED + 1), "row 2 of checked is 3"),
        ((GIVEN + 1, FOLD, CHECKED), r"row 2 of given is 3; allowed: 0\.\.2"),
    ],
)
def test_what_is_no_label_or_fold_is_refused(arguments, message) -> None:
    def fit(training: FoldTraining) -> FoldPredictions:
        own = int(FOLD.eq(training.fold).sum())
        parts = likely(torch.zeros(own).long(), 0.6), likely(arguments[2] * 0, 0.6)
        return FoldPredictions(*parts)

    with unchecked(), pytest.raises(UsageError, match=message):
        cross_fit(fit, *arguments)


@pytest.mark.parametrize("number", [0, 3, 1.5, "2"])
def test_rounds_that_are_none_are_refused(number) -> None:
    with unchecked(), pytest.raises(UsageError, match=f"rounds is {number!r}; allowed: 1 or 2"):
        fitted(Fits(), rounds=number)


@pytest.mark.parametrize("part", ["given", "checked"])
@pytest.mark.parametrize("wrong", [GIVEN + 0.9, GIVEN.bool(), [0, 1], GIVEN * 1j], ids=repr)
def test_labels_that_are_no_whole_numbers_are_refused(part, wrong) -> None:
    labels = {"given": GIVEN, "checked": CHECKED} | {part: wrong}
    with unchecked(), pytest.raises(UsageError, match=part):
        cross_fit(Fits(), labels["given"], FOLD, labels["checked"])


def test_predictions_may_be_of_any_floating_type_and_are_copied() -> None:
    types, buffer = [torch.float16, torch.float32, torch.float64], torch.empty(10, C)

    def fit(training: FoldTraining) -> FoldPredictions:
        buffer.copy_(likely(GIVEN[training.fold == FOLD], 0.6))
        training.targets.mul_(1)
        kind = types[training.fold]
        return FoldPredictions(buffer.to(kind), likely(CHECKED, 0.6).to(kind))

    found = fitted(fit)
    torch.testing.assert_close(found.stages[0].train, likely(GIVEN, 0.6), atol=1e-3, rtol=0)


def test_checked_examples_do_not_outnumber_the_others_of_a_distilled_student() -> None:
    seen = list[Tensor]()

    def fit(training: FoldTraining) -> FoldPredictions:
        rows = training.rows[training.rows >= N]
        seen.append(rows.bincount().max() if len(rows) else torch.tensor(0))
        return FoldPredictions(likely(GIVEN[training.fold == FOLD], 0.6), likely(many, 0.6))

    for count, times in ((7, 3), (15, 2), (30, 1), (90, 1)):
        many = torch.arange(count) % C
        cross_fit(fit, GIVEN, FOLD, many)
        assert {int(n) for n in seen[-FOLDS:]} == {times}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "fit gives None for trial-0.167-1; allowed: FoldPredictions"),
        (
            (likely(GIVEN[:4], 0.5), likely(CHECKED, 0.5)),
            r"gives .*\(4, 3\).* of 10 and 7 rows",
        ),
        ((likely(GIVEN[:10], 0.5), likely(CHECKED, 0.5)[:, 0]), "here of 10 and 7 rows"),
        ((likely(GIVEN[:10], 0.5),), "here of 10 and 7 rows"),
        ((likely(GIVEN[:10], 0.5), torch.full((7, 4), 0.25)), r"fit gives \[3, 4\] classes"),
        ((2 * likely(GIVEN[:10], 0.5), likely(CHECKED, 0.5)), "trial-0.167-1 is no dist"),
    ],
)
def test_what_are_no_predictions_of_a_fold_is_refused(given, message) -> None:
    with unchecked(), pytest.raises(UsageError, match=message):
        fitted(lambda _: given)


def test_plain_students_that_are_hardly_better_than_chance_are_warned_of_once() -> None:
    # of 30 labels, 10 of each class, 15 are 5 above and 2 standard errors are 5.2
    for correct in (15, 16):
        wrong = torch.arange(N) >= correct

        def fit(training: FoldTraining, wrong: Tensor = wrong) -> FoldPredictions:
            own = training.fold == FOLD
            plain = training.name.startswith(("trial", "plain"))
            labels = torch.where(wrong & plain, (GIVEN + 1) % C, GIVEN)[own]
            return FoldPredictions(likely(labels, 0.6), likely(CHECKED, 0.6))

        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            result = fitted(fit)
        assert bool(result.note) == (correct == 15)
        assert [str(one.message) for one in found] == [
            "cross_fit: plain students of folds predict 50.0% of 30 given labels that they "
            "were not trained on, hardly more than the share of the most frequent label, "
            "33.3%: cross-fitted results mean little. Train for more steps, or with another "
            "learning rate."
        ] * (correct == 15)


def test_students_that_predict_the_most_frequent_label_alone_are_at_chance() -> None:
    given = torch.tensor([0] * 90 + [1] * 10)
    constant = Predicted.of(torch.zeros(100, dtype=torch.int64), given)
    assert constant == (90, 90, 100)
    assert not constant.above_chance
    assert not Predicted(96, 90, 100).above_chance
    assert Predicted(97, 90, 100).above_chance


@pytest.mark.parametrize(("diverged", "decay"), [(("30",), 7.5), (("7.5",), 30)])
def test_a_trial_of_weight_decay_may_diverge(diverged, decay) -> None:
    fits = Fits(plain=0.6)
    names = tuple(f"distilled-trial-{one}" for one in diverged)

    def fit(training: FoldTraining) -> FoldPredictions:
        own, checked = fits(training)
        nothing = torch.full_like(checked, torch.nan)
        return FoldPredictions(own, nothing if training.name in names else checked)

    assert fitted(fit).decay_factor == decay


def test_all_trials_of_weight_decay_that_diverge_are_an_error() -> None:
    fits = Fits(plain=0.6)

    def fit(training: FoldTraining) -> FoldPredictions:
        own, checked = fits(training)
        trial = training.name.startswith("distilled-trial")
        return FoldPredictions(own, torch.full_like(checked, torch.nan) if trial else checked)

    with pytest.raises(UsageError, match="try settings diverged"):
        fitted(fit)

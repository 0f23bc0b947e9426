"""The probability that a label is wrong, against enumeration, simulation and plain limits."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trained import unchecked
from tutelage.crossfit import (
    LabelErrors,
    error_count_interval,
    label_errors,
    match_error_counts,
)
from tutelage.crossfit.label_errors import _Fitted, _wrong
from tutelage.errors import UsageError


def simulated(
    seed: int, rows: int, checked: int, classes: int = 3, power: float | None = 0.6
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Predictions that are too sure, and labels that are wrong by a class matrix.

    Without a power they are too sure or too unsure, as the prior has it.

    Returns:
        Predictions, given labels, predictions and labels of checked examples, which labels are
        wrong, and the probability that each is by the model the data were drawn from.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (rows + checked, classes)
    right = (2.5 * torch.randn(shape, generator=generator, dtype=torch.float64)).softmax(1)
    truth = torch.multinomial(right, 1, generator=generator).squeeze(1)
    transitions = torch.full((classes, classes), 0.05, dtype=torch.float64)
    transitions += 0.2 * torch.eye(classes, dtype=torch.float64).roll(1, 1)
    transitions.fill_diagonal_(0.0)
    transitions += torch.diag(1 - transitions.sum(1))
    given = torch.multinomial(transitions[truth], 1, generator=generator).squeeze(1)
    drawn = math.exp(0.5 * float(torch.randn((), generator=generator)))
    said = (right.log() / (drawn if power is None else power)).softmax(1)
    joint = right * transitions.T[given]
    wrong = 1 - (joint / joint.sum(1, keepdim=True)).gather(1, given[:, None]).squeeze(1)
    return (
        said[:rows],
        given[:rows],
        said[rows:],
        truth[rows:],
        (truth != given)[:rows],
        wrong[:rows],
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_probability_of_one_draw_is_what_enumeration_gives(seed):
    said, given, *_ = simulated(seed, 20, 0, classes=4)
    generator = torch.Generator().manual_seed(seed)
    bias = torch.randn(4, generator=generator, dtype=torch.float64)
    transitions = torch.rand(4, 4, generator=generator, dtype=torch.float64)
    transitions /= transitions.sum(1, keepdim=True)
    power, floor, shift = 0.7, 0.02, -0.3
    log_power = torch.tensor(math.log(power), dtype=torch.float64)
    fitted = _Fitted(log_power, bias, transitions, torch.zeros(5), floor, shift)
    found = _wrong(fitted, said.log(), given)
    for row, (p, g) in enumerate(zip(said.tolist(), given.tolist(), strict=True)):
        raised = [math.exp(float(bias[c])) * p[c] ** power for c in range(4)]
        q = [(1 - floor) * r / sum(raised) + floor / 4 for r in raised]
        joint = [q[c] * float(transitions[c, g]) for c in range(4)]
        odds = math.exp(shift) * (sum(joint) - joint[g]) / joint[g]
        assert float(found[row]) == pytest.approx(odds / (1 + odds), rel=1e-12)


def test_it_comes_near_the_probability_by_the_model_that_drew_the_data():
    said, given, checked, right, wrong, best = simulated(0, 2000, 200)
    found = label_errors(said, given, checked, right)
    assert float((found.probabilities - best).abs().mean()) < 0.04
    assert found.power < 0.8  # the predictions are surer than they should be
    naive = 1 - said.gather(1, given[:, None]).squeeze(1)
    losses = [
        float(torch.nn.functional.binary_cross_entropy(p, wrong.double()))
        for p in (best, found.probabilities, naive)
    ]
    lost, by_naive = losses[1] - losses[0], losses[2] - losses[0]
    assert 0 < lost < by_naive / 2


@pytest.mark.parametrize("checked", [10, 100])
def test_an_interval_has_its_coverage(checked):
    runs, level = 20, 0.9
    covered = {"all": 0, "suspects": 0}
    for seed in range(runs):
        said, given, others, right, wrong, _ = simulated(1000 + seed, 400, checked, power=None)
        found = label_errors(said, given, others, right, draws=12, seed=seed)
        for name, rows in {"all": None, "suspects": found.probabilities > 0.5}.items():
            low, high = error_count_interval(found, rows, level=level)
            count = int(wrong.sum() if rows is None else wrong[rows].sum())
            covered[name] += low <= count <= high
    # at 90%, fewer than 15 of 20 are covered in one of 90 such tests
    assert min(covered.values()) >= 15, covered


def test_more_checked_examples_bring_draws_together():
    said, given, checked, right, *_ = simulated(3, 600, 500, power=1.0)
    few, many = (label_errors(said, given, checked[:n], right[:n]) for n in (10, 500))
    assert float(few.draws.std(0).mean()) > 1.1 * float(many.draws.std(0).mean())


def test_checked_examples_show_that_predictions_are_too_sure():
    said, given, checked, right, wrong, _ = simulated(3, 600, 500, power=0.5)
    without, with_them = label_errors(said, given), label_errors(said, given, checked, right)
    assert with_them.power < without.power
    losses = [
        float(torch.nn.functional.binary_cross_entropy(found.probabilities, wrong.double()))
        for found in (with_them, without)
    ]
    assert losses[0] < losses[1]


def test_draws_depend_on_the_seed_alone_and_the_mean_is_theirs():
    said, given, checked, right, *_ = simulated(5, 100, 10)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with torch.no_grad():
        one = label_errors(said, given, checked, right, draws=3, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    again = label_errors(said, given, checked, right, draws=3, seed=1)
    other = label_errors(said, given, checked, right, draws=3, seed=2)
    assert torch.equal(one.draws, again.draws)
    assert not torch.equal(one.draws, other.draws)
    torch.testing.assert_close(one.probabilities, one.draws.mean(0))
    torch.testing.assert_close(one.transitions.sum(1), torch.ones(3, dtype=torch.float64))


def test_sure_half_precision_and_lonely_predictions_give_numbers():
    sure = torch.eye(3)[torch.tensor([0, 1, 2, 0])].half()
    given = torch.tensor([0, 1, 0, 1], dtype=torch.int16)
    found = label_errors(sure, given, draws=4)
    assert ((found.probabilities > 0) & (found.probabilities < 1)).all()
    assert (found.probabilities[2:] > found.probabilities[:2].max()).all()
    alone = label_errors(torch.ones(1, 1), torch.tensor([0]), draws=2)
    assert alone.probabilities.tolist() == [0.0]
    assert error_count_interval(alone) == (0, 0)
    nobody = label_errors(torch.eye(3)[:2], torch.tensor([2, 2]), draws=2)
    assert nobody.probabilities.isfinite().all()


def test_an_interval_is_that_of_independent_labels_where_draws_agree():
    each = torch.tensor([[0.5] * 400], dtype=torch.float64).expand(8, -1)
    certain = LabelErrors(each[0], each, torch.eye(2, dtype=torch.float64), 1.0)
    low, high = error_count_interval(certain, level=0.9)
    want = np.array([200 - 1.645 * 10, 200 + 1.645 * 10])
    assert np.abs(np.array([low, high]) - want).max() < 2
    none = torch.zeros(400, dtype=torch.bool)
    assert error_count_interval(certain, none) == (0, 0)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"draws": 1}, "draws is 1"),
        ({"given": torch.tensor([0, 3])}, "row 1 of given is 3"),
        ({"given": torch.tensor([0])}, "one class id for each of 2 rows"),
        ({"probabilities": torch.ones(2, 2)}, "row 0 of probabilities"),
        ({"probabilities": torch.ones(0, 2), "given": torch.zeros(0).long()}, "no row"),
        ({"checked_probabilities": torch.ones(1, 1)}, "both or neither"),
        (
            {"checked_probabilities": torch.ones(1, 1), "checked_labels": torch.tensor([0])},
            "[H, 2]",
        ),
        (
            {"checked_probabilities": torch.eye(2), "checked_labels": torch.tensor([0, 2])},
            "checked_labels",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changed, part):
    asked = {"probabilities": torch.eye(2), "given": torch.tensor([0, 1])} | changed
    with pytest.raises(UsageError, match=part.replace("[", r"\[")):
        label_errors(**asked)


def test_rows_and_level_are_checked():
    found = label_errors(torch.eye(2), torch.tensor([0, 1]), draws=2)
    with unchecked():  # as users run it
        for rows in (torch.tensor([0, 1]), torch.tensor([True])):
            with pytest.raises(UsageError, match="rows are"):
                error_count_interval(found, rows)
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(UsageError, match="level is"):
            error_count_interval(found, level=level)


def test_totals_of_another_estimate_are_taken_and_the_order_of_labels_is_kept() -> None:
    p, given, checked, right, _, _ = simulated(3, 200, 40)
    errors = label_errors(p, given, checked, right, draws=4)
    sharper = (p**3) / (p**3).sum(1, keepdim=True)
    other = label_errors(sharper, given, draws=4, seed=1)
    found = match_error_counts(errors, other)
    torch.testing.assert_close(found.draws.sum(1), other.draws.sum(1), rtol=1e-6, atol=0)
    torch.testing.assert_close(found.probabilities, found.draws.mean(0))
    for before, after in zip(errors.draws, found.draws, strict=True):
        shift = after.logit() - before.clamp(1e-9, 1 - 1e-9).logit()
        torch.testing.assert_close(shift, shift[:1].expand(len(shift)), rtol=1e-4, atol=1e-4)
    same = match_error_counts(errors, errors)
    torch.testing.assert_close(same.draws, errors.draws, rtol=1e-6, atol=1e-8)
    with pytest.raises(UsageError, match="like has draws"):
        match_error_counts(errors, label_errors(p, given, draws=3))

"""What a run says to do: by the best control, and by the interval of differences alone."""

from typing import Any

import pytest
from scipy.stats import ttest_1samp

from tutelage.errors import UsageError
from tutelage_cli.intervals import mean_interval
from tutelage_cli.train.names import CONTROLS
from tutelage_cli.train.verdict import ADVICE, UNTAUGHT, best_control, split_arms, verdict


def arm(*accuracies: float, ratio: float = 1.0, checked: float = -1.0):
    """Results of an arm, one for each accuracy in percent."""
    return [
        {
            "test_accuracy": accuracy / 100,
            "ratio": ratio,
            "held_out_accuracy": 0.5,
            "held_out_log_likelihood": checked,
        }
        for accuracy in accuracies
    ]


def test_the_interval_is_that_of_a_t_test() -> None:
    values = [1.5, -0.2, 0.9, 2.0, 0.4]
    oracle: Any = ttest_1samp(values, 0, alternative="greater")
    wanted = ttest_1samp(values, 0).confidence_interval(0.9)
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)
    assert found.p == pytest.approx(oracle.pvalue, rel=1e-12)
    assert (found.n, found.mean) == (5, pytest.approx(0.92))
    assert found.above
    assert not mean_interval([-v for v in values]).above
    assert mean_interval([-v for v in values]).below


@pytest.mark.parametrize("value", [2.0, 0.0, -2.0])
def test_equal_values_leave_no_room_for_chance(value) -> None:
    found = mean_interval([value] * 3)
    assert (found.low, found.high) == (value, value)
    assert (found.above, found.below) == (value > 0, value < 0)


def test_one_value_has_no_interval() -> None:
    with pytest.raises(UsageError, match="1 values give no interval; allowed: 2 and above"):
        mean_interval([1.0])


def test_teach_where_the_taught_arm_lies_above_the_best_control_by_its_interval() -> None:
    arms = {
        UNTAUGHT: arm(80, 81, 80),
        "margin-loss": arm(95, 96, 95.5, ratio=2.2),
        "fine-tuned": arm(93, 94, 93, ratio=1.4),
        "pruned": arm(88, 88, 88),
    }
    first, second = verdict(arms)
    assert first == (
        "Teach: margin-loss (95.5%, 2.2 times the time) is 2.2 points of test accuracy above "
        "the best control, fine-tuned (93.3%, 1.4 times the time); 90% interval +1.7 to +2.7 "
        "over 3 seeds."
    )
    assert second == (
        "Taught by margin-loss: +2.2 points of test accuracy over fine-tuned, 90% interval "
        "+1.7 to +2.7; better in 3 of 3 seeds."
    )


@pytest.mark.parametrize("control", [UNTAUGHT, *CONTROLS])
def test_do_what_the_best_control_does_where_it_lies_above(control) -> None:
    arms = {UNTAUGHT: arm(50, 51), "loss": arm(60, 61)} | {control: arm(90, 91, ratio=3.0)}
    first = verdict(arms)[0]
    assert first.startswith(
        f"{ADVICE[control]}: {control} (90.5%, 3.0 times the time) is 30.0 points"
    )
    assert "Teach" not in first


def test_the_higher_or_cheaper_one_is_named_where_neither_is_shown_to_be_better() -> None:
    taught, control = arm(95, 93, ratio=2.0), arm(93, 95.5, ratio=1.5)
    first = verdict({UNTAUGHT: arm(80, 80), "loss": taught, "fine-tuned": control})[0]
    assert first.startswith("Fine-tune: neither is shown to be better, and this is cheaper. ")
    dear = arm(93, 95.6, ratio=2.5)
    first = verdict({UNTAUGHT: arm(80, 80), "loss": taught, "fine-tuned": dear})[0]
    assert first.startswith("Fine-tune: it has the higher mean, though neither is shown to be ")
    assert "fine-tuned (94.3%, 2.5 times the time): -0.3 points of test accuracy, 90%" in first
    dear = arm(93, 94.6, ratio=2.5)
    first = verdict({UNTAUGHT: arm(80, 80), "loss": taught, "fine-tuned": dear})[0]
    assert first.startswith("Neither is shown to be better, and teaching is cheaper. loss (94")


def test_one_seed_gives_no_verdict_and_says_how_many_do() -> None:
    first, second = verdict({UNTAUGHT: arm(80), "loss": arm(95), "pruned": arm(90)})
    assert first.startswith("No verdict: one seed says nothing about chance; give --seeds 2")
    assert second == "Taught by loss: +5.0 points of test accuracy over pruned in one seed."
    assert "better 5. Highest control: pruned (90.0%" in first


def test_of_several_taught_arms_the_checked_examples_choose() -> None:
    arms = {
        UNTAUGHT: arm(80, 80),
        "loss": arm(99, 99, checked=-2.0),
        "margin-loss": arm(70, 70, checked=-0.5),
    }
    first, *others = verdict(arms)
    assert first.startswith("Train untaught: untaught (80.0%")
    assert "margin-loss" in first
    assert [line.split(":")[0] for line in others] == [
        "Taught by loss",
        "Taught by margin-loss",
    ]


def test_baselines_and_fixed_policies_are_controls_unless_nothing_else_is_taught() -> None:
    names = [UNTAUGHT, "learned-augmentation", "uniform-augment", "gce", "pruned"]
    taught, controls = split_arms(names)
    assert taught == ["learned-augmentation"]
    assert controls == [UNTAUGHT, "pruned", "uniform-augment", "gce"]
    assert split_arms([UNTAUGHT, "gce"]) == (["gce"], [UNTAUGHT])
    arms = {UNTAUGHT: arm(80, 80), "loss": arm(90, 90), "gce": arm(93, 93)}
    assert best_control(arms) == "gce"
    assert verdict(arms)[0].startswith("Use gce: ")
    assert verdict({UNTAUGHT: arm(80)}) == []


def test_what_cross_fitting_gains_over_the_untaught_student_is_in_every_verdict() -> None:
    arms = {
        UNTAUGHT: arm(80, 82, 80),
        "loss": arm(95, 96, 95.5),
        "cross-fitted": arm(92, 93, 91.5, ratio=5.0),
    }
    gain = mean_interval([12, 11, 11.5])
    wanted = (
        "What cross-fitting gains in all: +11.5 points of test accuracy over untaught, 90% "
        f"interval {gain.low:+.1f} to {gain.high:+.1f}; better in 3 of 3 seeds."
    )
    assert (gain.low > 10, verdict(arms)[-1]) == (True, wanted)
    assert verdict({name: arms[name] for name in (UNTAUGHT, "cross-fitted")}) == [wanted]
    one = {name: results[:1] for name, results in arms.items()}
    assert verdict(one)[-1] == (
        "What cross-fitting gains in all: +12.0 points of test accuracy over untaught in one "
        "seed."
    )

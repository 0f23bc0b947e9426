"""The table of arms: every number is the one that was given."""

import math
from statistics import fmean, median, stdev

import pytest

from tutelage_cli.report import HEADER, Arm, caption, formats, rows
from tutelage_cli.report.table import SEED_HEADER, seed_rows


def taught(**changes) -> Arm:
    fields = {
        "name": "taught",
        "teacher": "some teacher",
        "seeds": (0, 1, 2),
        "test_accuracy": (0.91, 0.93, 0.94),
        "seconds": (10.0, 11.0, 15.0),
        "ratio": (1.5, 1.6, 9.0),
        "memory": (2.0**20, 2.0**21, 3.0 * 2**20),
        "weight_right": (1.2, 1.3, 1.4),
        "weight_wrong": (0.1, 0.2, 0.3),
        "auroc": (0.8, 0.9, 0.95),
    }
    return Arm(**{**fields, **changes})


def one_seed(**changes) -> Arm:
    fields = {
        "seeds": (4,),
        "test_accuracy": (0.5,),
        "seconds": (123.4,),
        "ratio": (1.0,),
        "memory": None,
        "weight_right": None,
        "weight_wrong": None,
        "auroc": None,
    }
    return taught(**{**fields, **changes})


def test_numbers_are_those_given():
    arm = taught()
    [row] = rows([arm])
    said = dict(zip(HEADER, row, strict=True))
    mean, _, spread = said["Test accuracy, %"].split()
    assert float(mean) == pytest.approx(100 * fmean(arm.test_accuracy), abs=0.005)
    assert float(spread) == pytest.approx(100 * stdev(arm.test_accuracy), abs=0.005)
    assert caption([arm]) == "Mean ± standard deviation over 3 seeds"
    assert said["Arm"] == "taught"
    assert float(said["Seconds"]) == 12.0
    assert float(said["Time, untaught = 1"].rstrip("×")) == median(arm.ratio)
    assert float(said["Memory, MiB"]) == 2.0
    assert float(said["Weight, right labels"]) == pytest.approx(1.3)
    assert float(said["Weight, wrong labels"]) == pytest.approx(0.2)
    assert float(said["AUROC"]) == pytest.approx(0.883, abs=0.0005)


def test_one_seed_has_no_spread():
    [row] = rows([one_seed()])
    assert caption([one_seed()]) == "One seed"
    assert row == ("taught", "50.00", "123", "1.00×", "–", "–", "–", "–")


def test_a_value_that_is_not_finite_is_a_dash():
    [row] = rows([taught(auroc=(0.9, math.nan, 0.9), test_accuracy=(0.9, math.nan, 0.9))])
    assert row[-1] == "–"
    assert row[1] == "–"


def test_every_seed_has_its_row():
    lines = seed_rows([taught(), one_seed(name="other")])
    assert len(lines) == 4
    assert all(len(line) == len(SEED_HEADER) for line in lines)
    assert lines[1] == (
        "taught",
        "1",
        "93.00",
        "11.0",
        "1.60×",
        "2.0",
        "1.300",
        "0.200",
        "0.900",
    )
    assert lines[3] == ("other", "4", "50.00", "123", "1.00×", "–", "–", "–", "–")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (0.0004, "4.0e-04"),
        (0.0005, "0.001"),
        (-1.5, "-1.500"),
        (math.inf, "–"),
        (None, "–"),
    ],
)
def test_a_small_number_never_reads_zero(value, text):
    assert formats.number(value) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(1536.0 * 1024, "1.5"), (9.97 * 2**20, "10"), (2.0**32, "4,096"), (None, "–")],
)
def test_memory_is_whole_mebibytes_from_ten_on(amount, text):
    assert formats.mebibytes(amount) == text


@pytest.mark.parametrize(("value", "text"), [(99.94, "99.9"), (99.96, "100"), (1284, "1,284")])
def test_seconds_lose_their_decimal_from_a_hundred_on(value, text):
    assert formats.seconds(float(value)) == text


@pytest.mark.parametrize("field", ["test_accuracy", "seconds", "ratio", "memory", "auroc"])
def test_an_arm_needs_one_value_per_seed(field):
    with pytest.raises(ValueError, match=f"{field} holds 2 values, expected 3"):
        taught(**{field: (1.0, 1.0)})


def test_an_arm_needs_a_seed():
    with pytest.raises(ValueError, match="no seed"):
        one_seed(seeds=(), test_accuracy=(), seconds=(), ratio=())

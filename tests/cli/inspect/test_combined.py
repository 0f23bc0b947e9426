"""Students of several seeds speak of a label together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from tutelage_cli.inspect.combined import combined
from tutelage_cli.inspect.example_tables import (
    AGREEMENT,
    ExampleTable,
    HeldOutTable,
    agrees,
    scores,
)


def student(
    names: str,
    given: str,
    losses: Sequence[float],
    weights: Sequence[float],
    held_out: Sequence[float] | None = None,
) -> ExampleTable:
    """A student with one letter a name, and a letter a class."""
    clean = None if held_out is None else np.array(held_out)
    return ExampleTable(
        student="s",
        names=list(names),
        ids=list(range(len(names))),
        given=list(given),
        predicted=["x"] * len(names),
        true=None,
        losses=np.array(losses),
        weights=np.array(weights),
        held_out=None if clean is None else HeldOutTable(clean, 1 / (1 + clean)),
    )


def test_labels_are_ordered_by_their_mean_place_whatever_the_level() -> None:
    one = student("abc", "xxx", [1, 2, 3], [0.9, 0.5, 0.1])
    other = student("abc", "xxx", [1, 2, 3], [0.002, 0.001, 0.0])
    labels = combined([one, other], "weight", max_fpr=0.1, top=1)
    assert labels.names == ["c", "b", "a"]
    assert labels.mean_rank.tolist() == [0, 0.5, 1]
    assert labels.weights.tolist() == pytest.approx([0.05, 0.2505, 0.451])
    assert labels.distrusted.tolist() == [2, 0, 0]  # the first one of each
    assert labels.flagged is None


def test_another_label_of_an_example_is_another_label() -> None:
    one = student("ab", "xy", [5, 1], [1, 1])
    other = student("ab", "yy", [1, 2], [1, 1])
    labels = combined([one, other], "loss", max_fpr=0.1, top=1)
    told = dict(zip(zip(labels.names, labels.given, strict=True), labels.students, strict=True))
    assert told == {("a", "x"): 1, ("a", "y"): 1, ("b", "y"): 2}


def test_most_of_the_students_accuse() -> None:
    clean = [0.1] * 19
    students = [
        student("ab", "xx", [9, 9], [0, 0], clean),
        student("ab", "xx", [9, 0], [0, 1], clean),
        student("ab", "xx", [0, 0], [1, 1], clean),
    ]
    labels = combined(students, "loss", max_fpr=0.05, top=1)
    assert labels.flagged is not None
    assert dict(zip(labels.names, labels.distrusted.tolist(), strict=True)) == {"a": 2, "b": 1}
    assert dict(zip(labels.names, labels.flagged.tolist(), strict=True)) == {
        "a": True,
        "b": False,
    }


def test_a_loss_that_is_no_number_is_the_worst() -> None:
    labels = combined(
        [student("ab", "xx", [3, float("nan")], [1, 1])], "loss", max_fpr=0.1, top=1
    )
    assert labels.names[0] == "b"


def test_weights_tell_only_where_they_differ_and_held_out_ones_are_known() -> None:
    weighing = student("ab", "xx", [1, 2], [0.4, 0.2], [1.0, 2.0])
    even = student("ab", "xx", [1, 2], [1, 1])
    assert scores([weighing]) == ["weight", "loss"]
    assert scores([even]) == ["loss"]
    unknown = HeldOutTable(np.ones(2), np.full(2, np.nan))
    hidden = student("ab", "xx", [1, 2], [0.4, 0.2])
    object.__setattr__(hidden, "held_out", unknown)
    assert scores([hidden]) == ["loss"]


@pytest.mark.parametrize(
    ("weights", "agree"),
    [([0.4, 0.3, 0.1], True), ([0.1, 0.3, 0.4], False), ([1, 1, 1], False)],
)
def test_a_teacher_agrees_where_what_is_hard_weighs_little(weights, agree) -> None:
    assert agrees(student("abc", "xxx", [1, 2, 3], weights)) is agree


def test_agreement_is_the_rank_correlation_of_spearman_with_ties_and_infinite_losses() -> None:
    generator, found = np.random.default_rng(0), []
    for _ in range(100):
        weights, losses = generator.integers(4, size=(2, 8)).astype(float)
        losses[generator.integers(8)] = np.inf
        table = student("abcdefgh", 8 * "x", (losses - weights).tolist(), weights.tolist())
        correlation: Any = spearmanr(-table.weights, table.losses)
        expected = correlation.statistic >= AGREEMENT
        assert agrees(table) == expected
        found.append(expected)
    assert {*found} == {True, False}


def test_students_with_their_rows_in_another_order_speak_of_the_same_labels() -> None:
    one = student("abc", "xyx", [3, 1, 2], [0.1, 0.4, 0.2], [0.5] * 9)
    same = student("abc", "xyx", [1, 2, 3], [0.3, 0.2, 0.1], [0.5] * 9)
    moved = student("cab", "xxy", [3, 1, 2], [0.1, 0.3, 0.2], [0.5] * 9)
    as_one, as_moved = (
        combined([one, other], "loss", max_fpr=0.2, top=1) for other in (same, moved)
    )
    assert as_one.names == as_moved.names == ["c", "a", "b"]
    for name in ("losses", "weights", "mean_rank", "students", "distrusted", "flagged"):
        assert getattr(as_one, name).tolist() == getattr(as_moved, name).tolist()

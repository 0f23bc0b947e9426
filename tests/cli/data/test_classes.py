"""Tests of the way from label values to class numbers."""

import pytest

from tutelage.errors import UsageError
from tutelage_cli.data.classes import class_names, encode
from tutelage_cli.data.columns import listed


def test_words_become_sorted_classes():
    values = ["dog", "cat", "emu", "cat"]
    assert class_names(values) == ("cat", "dog", "emu")
    assert encode(values, class_names(values), where="toy").tolist() == [1, 0, 2, 0]


def test_words_that_mean_nothing_elsewhere_are_classes():
    words = ["spam", "null", "None", "NA", "spam ", "Spam"]
    assert class_names(words) == tuple(sorted(words))


@pytest.mark.parametrize("values", [[0, 1, 3, 7, 3], [0.0, 1.0, 3.0, 7.0, 3.0]])
def test_numbers_nobody_has_keep_their_place(values):
    classes = class_names(values)
    assert classes == tuple("01234567")
    assert encode(values, classes, where="toy").tolist() == [0, 1, 3, 7, 3]


def test_a_full_byte_of_classes_is_allowed():
    assert len(class_names(range(256))) == 256


@pytest.mark.parametrize(
    ("values", "row", "label"), [([0, 255, -1, 1], 3, 255), ([0, -1], 3, -1)]
)
def test_marks_of_unlabelled_examples_are_named(values, row, label):
    with pytest.raises(
        UsageError, match=rf"row {row} .* of toy has label {label}; allowed: 0\.\."
    ):
        encode(values, class_names(values), where="toy")


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_missing_labels_are_listed(gap):
    with pytest.raises(
        UsageError, match=r"toy has no label in rows 3, 4 \(the header is row 1\)"
    ):
        encode([0, gap, gap, 1], ("0", "1"), where="toy")


def test_an_unknown_word_and_a_fraction_are_refused():
    with pytest.raises(UsageError, match=r"'catt', which is no class. Did you mean 'cat'\?"):
        encode(["dog", "catt"], ("cat", "dog"), where="toy")
    with pytest.raises(UsageError, match=r"label 0.5 of type float; allowed: whole numbers"):
        encode([0.5], ("cat", "dog"), where="toy")


def test_long_lists_of_rows_are_cut():
    assert listed([4]) == "row 4 (the header is row 1)"
    assert listed(range(8)) == "rows 0, 1, 2, 3, 4 and 3 more (the header is row 1)"


def test_a_class_name_of_two_lines_leaves_the_message_one():
    with pytest.raises(UsageError, match=r"'c\\r\\nd', which is .*Allowed: a\\nb") as raised:
        encode(["a\nb", "c\r\nd"], ("a\nb",), where="toy")
    assert "\n" not in str(raised.value)

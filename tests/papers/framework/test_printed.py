"""The papers' numbers are found as they are printed."""

import pytest

from papers.framework import paper_tables as numbers
from papers.framework.paper_tables import PAPERS, printed


def test_a_number_has_its_spread_its_unit_and_the_decimals_of_its_column():
    number = printed("commentaries", "Table 2", "mixup", "CIFAR10 Test Accuracy")
    assert (number.value, number.spread, number.decimals) == (94.42, 0.12, 2)
    assert number.unit == "% accuracy"
    cell = printed("gar", "Table 1", "FC / NSLR", "Other Splits")
    assert (cell.value, cell.spread, cell.decimals) == (0.9, None, 2)


def test_every_stored_number_can_be_read():
    records = numbers._records()
    assert len(records) == 696
    assert {r["paper"] for r in records} == set(PAPERS)
    keys = {(r["paper"], r["table"], str(r["row"]), str(r["column"])) for r in records}
    assert len(keys) == len(records)
    for key in keys:
        assert printed(*key).decimals in range(5)


def test_an_unknown_cell_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="FC_BN / GAR"):
        printed("gar", "Table 1", "FC / GAR", "Noisy")

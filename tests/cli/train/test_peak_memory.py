"""What training takes: at least what it held at once, whatever came before it."""

import gc

import numpy as np
import pytest
import torch

from tutelage_cli.train.memory import STATUS, PeakMemory
from tutelage_cli.train.report_content import class_means

MIB = 2**20
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _as_users_run_it(monkeypatch):
    monkeypatch.setattr("tutelage_cli.train.memory.collect", gc.collect)


linux = pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell")


@linux
def test_a_peak_is_seen_after_it_has_passed_and_above_what_was_held_before():
    kept = torch.ones(40 * MIB // 4)
    footprint = PeakMemory(CPU)
    before = footprint.peak()
    assert before is not None
    assert before < 10 * MIB
    del kept
    held = torch.ones(60 * MIB // 4)
    del held
    after = footprint.peak()
    assert after is not None
    assert 15 * MIB < after < 70 * MIB


@linux
def test_an_earlier_peak_does_not_count():
    held = torch.ones(60 * MIB // 4)
    del held
    footprint = PeakMemory(CPU)
    held = torch.ones(60 * MIB // 4)
    del held
    footprint.forget()
    peak = footprint.peak()
    assert peak is not None
    assert peak < 10 * MIB


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU can be used here")
def test_on_a_card_it_is_what_torch_allocates_there():
    footprint = PeakMemory(torch.device("cuda"))
    held = torch.ones(60 * MIB // 4, device="cuda")
    del held
    assert footprint.peak() == 60 * MIB
    footprint.forget()
    assert footprint.peak() == 0


def test_class_means_are_over_the_examples_that_carry_a_label():
    weights = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtype=np.float32)
    found = class_means(weights, np.array([0, 0, 2]), 3)
    np.testing.assert_array_equal(found, [[2, np.nan, 5], [3, np.nan, 6]])


def test_nothing_is_told_where_earlier_peaks_cannot_be_forgotten(monkeypatch, tmp_path):
    monkeypatch.setattr("tutelage_cli.train.memory.RESET", tmp_path)  # cannot be written
    assert PeakMemory(CPU).peak() is None
    monkeypatch.undo()
    bare = tmp_path / "status"
    bare.write_text("Name:\tpython\n", encoding="ascii")
    monkeypatch.setattr("tutelage_cli.train.memory.STATUS", bare)
    assert PeakMemory(CPU).peak() is None

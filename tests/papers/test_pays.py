"""Whether teaching pays: cells are runs of the command line, compared by one rule."""

import json
import sys
from collections.abc import Sequence
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest
from rich.console import Console

from papers.pays import cells, comparison
from papers.pays.cells import CELLS, LEARNED, Cell, run_cells
from papers.pays.comparison import OTHERS, OURS, compare_arms, counts, print_table, stored
from tests.trained import one_line, pictures, run, run_papers, unchecked, undrawn
from tutelage.errors import UsageError


def results(*accuracies: float) -> list[dict[str, float]]:
    return [
        {"seed": seed, "test_accuracy": a, "ratio": 1.0} for seed, a in enumerate(accuracies)
    ]


ARMS = {
    "untaught": results(0.5, 0.52, 0.51),
    "fine-tuned": results(0.6, 0.61, 0.62),
    "pruned": results(0.7, 0.2, 0.2),
    OURS: results(0.7, 0.73, 0.71),
    LEARNED[0]: results(0.7, 0.70, 0.72),
    LEARNED[1]: results(0.8, 0.83, 0.82),
}


def test_each_is_compared_with_the_best_that_uses_the_same_labels() -> None:
    row = compare_arms("x", ARMS)
    assert row.control == "fine-tuned"
    assert row.ours.mean == pytest.approx((10 + 12 + 9) / 3)
    assert row.ours.above
    assert row.rival == OURS
    first, second = (row.taught[name] for name in LEARNED)
    assert first.mean == pytest.approx((0 - 3 + 1) / 3)
    assert not first.above
    assert not first.below
    assert second.above
    assert counts([row, row]) == [
        "Cross-fitting less the best control: above in 2, below in 0, undecided in 0 of 2 "
        "cells, by the 90% interval.",
        "margin-loss less the best control: above in 2, below in 0, undecided in 0 of 2 cells, "
        "by the 90% interval.",
        "margin-loss less the best of all others: above in 0, below in 0, undecided in 2 "
        "of 2 cells, by the 90% interval.",
        "out-of-fold less the best of all others: above in 2, below in 0, undecided in 0 "
        "of 2 cells, by the 90% interval.",
    ]


def test_cells_have_names_of_their_own_and_no_arm_of_ours_is_a_control() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert OURS not in OTHERS
    assert not {*LEARNED} & {*OTHERS}


def in_this_process(command: Sequence[str], *, check: bool) -> CompletedProcess[str]:
    assert command[:3] == [sys.executable, "-m", "tutelage_cli"]
    assert not check
    with unchecked(), undrawn():
        return CompletedProcess(command, run(*command[3:]).code)


def test_a_cell_is_one_run_of_the_command_line_and_is_not_run_again(
    tmp_path, monkeypatch
) -> None:
    flags = ("--epochs", "1", "--batch-size", "8", "--folds", "3", "--rounds", "1")
    pictures(tmp_path / "data" / "pets")
    monkeypatch.setenv("TUTELAGE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(cells, "subprocess", SimpleNamespace(run=in_this_process))
    for module in (cells, comparison):
        monkeypatch.setattr(module, "CELLS", (Cell("pets", "flip2:0.4", 9, flags),))
    files = run_cells([], 2, 1, tmp_path)
    first = files[0].read_bytes()
    kept = json.loads(first)
    assert {*kept["arms"]} >= {*LEARNED, *OTHERS, OURS}
    assert all(len(found) == 2 for found in kept["arms"].values())
    summary = tmp_path / "runs" / "pays" / "pets-flip2-0.4-9" / "summary.json"
    written = summary.stat().st_mtime_ns
    assert run_cells([], 2, 1, tmp_path)[0].read_bytes() == first
    assert summary.stat().st_mtime_ns == written
    with pytest.raises(UsageError, match=r"began with 2 seeds.*seeds is 3; give --seeds 2, or"):
        run_cells([], 3, 1, tmp_path)
    assert run_cells([], 2, 4, tmp_path)[0].read_bytes() == first  # finished, whoever ran it
    summary.rename(tmp_path / "summary.json")
    with pytest.raises(UsageError, match=r"began with 1 jobs.*jobs is 4; give --jobs 1, or"):
        run_cells([], 2, 4, tmp_path)
    (tmp_path / "summary.json").rename(summary)
    console = Console(record=True, width=200)
    print_table(console, stored(tmp_path))
    assert "of 1 cells" in console.export_text()


def test_a_curve_needs_three_numbers_of_checked_labels(tmp_path) -> None:
    folder = tmp_path / "results" / "pays"
    folder.mkdir(parents=True)
    for checked in (20, 50):
        file = folder / f"mnist5k-flip2-0.4-{checked}.json"
        file.write_text(json.dumps({"arms": ARMS}), encoding="utf-8")
    assert comparison.curves(tmp_path) == {}
    (folder / "mnist5k-flip2-0.4-500.json").write_text(json.dumps({"arms": ARMS}), "utf-8")
    (points,) = comparison.curves(tmp_path).values()
    assert points["pruned"] == {n: pytest.approx([70, 20, 20]) for n in (20, 50, 500)}
    comparison.write_curves(tmp_path)
    text = (folder / "mnist5k-flip2-0.4.svg").read_text(encoding="utf-8")
    for shown in ("checked labels", "500", *LEARNED, "pruned"):
        assert shown in text


def test_what_cannot_run_is_told_in_one_line(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("TUTELAGE_DATA", raising=False)
    one_line(run_papers("pays", "--seeds", "1", "--out", tmp_path), "seeds is 1")
    one_line(run_papers("pays", "--cells", "x", "--out", tmp_path), "Unknown cell 'x'")
    with pytest.raises(UsageError, match="set TUTELAGE_DATA"):
        run_cells(["cifar10-human-worst-20"], 2, 1, tmp_path)

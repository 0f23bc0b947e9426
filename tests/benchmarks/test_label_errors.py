"""The benchmark of wrong labels runs at a small size, and counts as it says."""

import json
import sys

import numpy as np
import pytest

from benchmarks.label_errors import (
    BOTH,
    CORRECTED,
    DISTILLED,
    METHODS,
    UNTAUGHT,
    main,
    precision_at,
)

WRONG = np.array([True, False, True, False, True, False])


@pytest.mark.parametrize(
    ("recall", "want"), [(1 / 3, 1 / 1), (2 / 3, 2 / 3), (1.0, 3 / 5), (0.0, float("nan"))]
)
def test_precision_is_that_of_the_shortest_start_with_the_recall(recall, want) -> None:
    found = precision_at(np.array([9.0, 8.0, 7.0, 6.0, 5.0, 4.0]), WRONG, recall)
    assert found == pytest.approx(want, nan_ok=True)


def test_a_small_cell_is_measured_and_written(tmp_path, monkeypatch) -> None:
    pytest.importorskip("cleanlab")
    words = ["--cells", "mnist5k-flip2-40", "--rows", "300", "--seeds", "1", "--epochs", "3"]
    words += ["--checked", "20", "--out", str(tmp_path / "found.json")]
    monkeypatch.setattr(sys, "argv", ["label_errors", *words])
    main()
    rows = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["results"]
    assert [row["predictions"] for row in rows] == [UNTAUGHT, CORRECTED, BOTH, DISTILLED]
    for row in rows:
        assert row["n"] == 280
        assert 70 < row["wrong"] < 160  # 40% of them
        assert set(row["rankings"]) == {"tutelage", *METHODS}
        low, high = row["suspects_between"]
        assert 0 <= low <= high <= row["suspects"]

"""The benchmark of dropped and replaced labels runs at a small size."""

import json
import sys

from benchmarks.fix_by import main


def test_a_small_cell_is_measured_and_written(tmp_path, monkeypatch, capsys) -> None:
    words = ["--cells", "mnist5k-flip2-40", "--rows", "600", "--seeds", "1"]
    monkeypatch.setattr(sys, "argv", ["fix_by", *words, "--out", str(tmp_path / "found.json")])
    main()
    (row,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["results"]
    assert 0 < row["flagged"] < row["of"] == 350
    assert row["wrong"] > 45  # 40% of all: flags are better than chance
    assert all(10 < row[way] <= 100 for way in ("given", "drop", "replace"))
    assert "drop" in capsys.readouterr().out

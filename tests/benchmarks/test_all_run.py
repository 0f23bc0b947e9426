"""Every benchmark runs, all its cases, at sizes that say nothing about time."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.__main__ import MODULES, NEED_DATA, main, table
from benchmarks.command import SIZE, Benchmark, Row
from tests.cli.train.killing import child, ended
from tests.docs.measured import ROOT
from tests.trained import unchecked

ALONE = os.environ | {SIZE: "small", "OMP_NUM_THREADS": "1"}


def run_all(names: Sequence[str], tmp_path: Path) -> None:
    """Run benchmarks in a fork, which has imported torch already."""
    said = tmp_path / "said"

    def act() -> int:
        os.chdir(ROOT)
        os.environ |= ALONE
        for module in [name for name in sys.modules if name.startswith("benchmarks.")]:
            del sys.modules[module]  # their sizes are set where they are imported
        sys.argv = ["benchmarks", *names, "--rounds", "2", "--out", str(tmp_path)]
        warnings.simplefilter("default")
        with said.open("w", encoding="utf-8") as sys.stderr, unchecked():
            try:
                runpy.run_module("benchmarks", run_name="__main__")
            except BaseException:
                traceback.print_exc()
                raise
        return 0

    assert ended(child(act), within=None) == 0, said.read_text(encoding="utf-8")
    written = (tmp_path / "table.md").read_text("utf-8")
    assert "| benchmark | way | time | change |" in written
    for name in names:
        content = json.loads((tmp_path / f"{name}-cpu.json").read_text("utf-8"))
        assert content["environment"]["torch"]
        missing = [row["missing"] for row in content["results"] if "missing" in row]
        refused = ("not installed", "RuntimeError: During a grad")  # vmap has no batch norm
        assert all(why.startswith(refused) for why in missing), missing
        assert len(content["results"]) > len(missing)


def test_every_benchmark_measures_all_its_cases(tmp_path) -> None:
    run_all([name for name in MODULES if name not in NEED_DATA], tmp_path)


def test_a_benchmark_of_real_data_measures_all_its_cases(tmp_path, real_data) -> None:
    assert real_data.is_dir()
    run_all(NEED_DATA, tmp_path)


def test_the_script_for_a_card_runs_dry(tmp_path) -> None:
    environment = {key: value for key, value in ALONE.items() if key != "TUTELAGE_DATA"}
    done = subprocess.run(
        ["bash", "benchmarks/gpu.sh", "--dry"],
        cwd=ROOT,
        env=environment | {"OUT": str(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {file.name for file in tmp_path.glob("*.json")} >= {
        "on-device.json",
        "cost.json",
        "gar-overhead.json",
    }


def test_what_got_slower_than_the_stored_figure_is_named(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "results/performance").mkdir(parents=True)
    stored = {"results": [{"case": "a", "variant": "ours", "time": 2.0}]}
    file = tmp_path / "results/performance/mmel-cpu.json"
    file.write_text(json.dumps(stored), "utf-8")
    rows: list[Row] = [
        {"case": "a", "variant": "ours", "time": 2.4},
        {"case": "a", "variant": "new", "time": 9.0},
        {"case": "a", "variant": "peer", "missing": "not installed"},
    ]
    stub = Benchmark(("a",), lambda _case, _rounds: rows, lambda row: row["variant"], 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("benchmarks.mmel.BENCHMARK", stub)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "mmel"])
    main()
    printed = capsys.readouterr().out
    assert "Slower by more than 15%: 1\n" in printed
    assert printed.count("| mmel | a, ours | 2.40 | 1.20 |") == 2
    assert "| mmel | a, new | 9.00 |  |" in printed
    assert [change for _, change in table("mmel", stub, rows, {"a, ours": 2.4})] == [1.0, None]
    assert json.loads(file.read_text("utf-8")) == stored  # as --store was not given
    shutil.rmtree(tmp_path / "results")


def test_an_unknown_benchmark_is_refused(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "speed"])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == 2
    assert "unknown speed; known are hypergradients, " in capsys.readouterr().err

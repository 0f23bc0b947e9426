"""The line of the verdict that says that a run was too short."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trained import content, run
from tutelage_cli.train.controls.folds import PLAIN, fold_jobs, held_back
from tutelage_cli.train.job import Job
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.summary import _too_short

EPOCHS, CLASSES = 4, 2
"""two epochs with the full learning rate"""


def write_run(
    run: Path,
    losses: Sequence[float],
    held_out: Sequence[float],
    correct: int = 16,
    learned: bool = True,
) -> TrainSettings:
    """The files of two seeds: untaught students of 40 labels, and folds of 16 labels."""
    settings = TrainSettings(epochs=EPOCHS, seeds=2)
    given = np.array([0] * 10 + [1] * 30)
    for seed in range(settings.seeds):
        job = Job(run, "untaught", seed, settings)
        lines = [
            {"epoch": n + 1, "train_loss": loss, "test_accuracy": 0.5}
            | {"held_out_log_likelihood": -held_out[n]}
            for n, loss in enumerate(losses)
        ]
        job.folder.mkdir(parents=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (job.folder / "metrics.jsonl").write_text(text, encoding="utf-8")
        table = {
            "id": np.arange(40),
            "given": given,
            "predicted": given if learned else np.ones(40, np.int64),
            "loss": np.ones(40),
            "weight": np.ones(40),
        }
        pq.write_table(pa.table(table), job.folder / "examples.parquet")
        for fold in fold_jobs(job, PLAIN):
            fold.folder.mkdir(parents=True)
            result = {"seconds": 1.0, "correct": correct, "given_counts": [4, 12]}
            (fold.folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return settings


FALLING, FLAT = [2.0, 1.5, 1.4, 1.4], [2.0, 2.1, 1.9, 1.8]
MOST = "hardly more than the share of the most frequent label, 75.0%"
OWN = f"untaught students predict 75.0% of 80 given labels, {MOST}"
FALLS = (
    "the training loss of untaught students still fell from 2.000 to 1.500 in the last epoch "
    "at the full learning rate"
)
CHANCE = (
    "plain students of folds predict 75.0% of 160 given labels that they were not trained on, "
    f"{MOST}: cross-fitted results mean little"
)


@pytest.mark.parametrize(
    ("losses", "held_out", "correct", "learned", "said"),
    [
        (FALLING, [1.0, 0.9, 0.8, 0.8], 16, True, [FALLS]),
        (FALLING, [1.0, 1.1, 0.8, 0.8], 16, True, []),  # it memorises
        (FLAT, FALLING, 16, True, []),
        (FLAT, FALLING, 12, True, [CHANCE]),
        (FLAT, FLAT, 16, False, [OWN]),
        (FALLING, FALLING, 12, False, [OWN, FALLS, CHANCE]),
    ],
)
def test_it_says_once_what_shows_that_it_was_too_short(
    losses, held_out, correct, learned, said, tmp_path
) -> None:
    settings = write_run(tmp_path, losses, held_out, correct, learned)
    wanted = f"Perhaps too short: {'; and '.join(said)}. Give more --epochs, or another --lr."
    assert _too_short(tmp_path, settings, CLASSES) == (wanted if said else "")


def test_a_run_of_an_earlier_release_or_without_folds_says_nothing_of_them(tmp_path) -> None:
    settings = write_run(tmp_path, FLAT, FALLING, 0)
    job = Job(tmp_path, "untaught", 0, settings)
    assert held_back(job) == (0, 60, 80)
    file = fold_jobs(job, PLAIN)[1].folder / "result.json"
    file.write_text(json.dumps({"seconds": 1.0}), encoding="utf-8")
    assert held_back(job) is None
    file.unlink()
    assert held_back(job) is None


def test_a_run_that_is_too_short_says_so_after_the_advice(tmp_path) -> None:
    vectors, labels = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    np.savez(tmp_path / "noise.npz", features=vectors, label=labels)
    out = tmp_path / "run"
    words = ["--epochs", "1", "--seeds", "1", "--batch-size", "30", "--lr", "1e-6"]
    words += ["--teacher", "focal", "--controls", "none", "--held-out", "6", "--jobs", "1"]
    answer = run("train", tmp_path / "noise.npz", *words, "--out", out)
    assert answer.code == 0, answer
    advice, short, *_ = content(out / "summary.json")["verdict"]
    assert advice.startswith("No verdict: one seed")
    assert short.startswith("Perhaps too short: untaught students predict ")
    assert answer.out.count("Perhaps too short") == 1
    assert short in (out / "report.html").read_text(encoding="utf-8")

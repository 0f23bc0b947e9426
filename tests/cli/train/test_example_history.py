"""What is kept of every example over a run is what the steps showed of it."""

from statistics import fmean
from typing import Any

import numpy as np
import pytest
import torch

from tests.trained import content, lines
from tutelage.training.forward import StepResult
from tutelage_cli.config.settings_files import from_plain
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.train.evaluation import read_examples
from tutelage_cli.train.example_history import MAX_EPOCHS, epochs_kept, read_example_history
from tutelage_cli.train.material import read_source, seed_material
from tutelage_cli.train.plan import TrainState
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.student_training import _add_step


def test_all_epochs_of_a_short_run_are_kept_and_some_of_a_long_one() -> None:
    assert epochs_kept(1) == [1]
    assert epochs_kept(MAX_EPOCHS) == list(range(1, MAX_EPOCHS + 1))
    for epochs in (MAX_EPOCHS + 1, 60, 1000):
        kept = epochs_kept(epochs)
        assert len(kept) == len(set(kept)) == MAX_EPOCHS
        assert (kept[0], kept[-1]) == (1, epochs)
        gaps = np.diff(kept)
        assert gaps.max() - gaps.min() <= 1


def test_losses_kept_are_those_that_the_epochs_mean_is_made_of(trained) -> None:
    settings = from_plain(TrainSettings, content(trained / "settings.json"))
    train = seed_material(read_source(settings), settings, 0).train
    collate = CollateImages(*statistics(train))
    batches = Batches(train, 8, 0, collate, torch.device("cpu"))
    student = trained / "students" / "untaught-seed0"
    kept, past = read_example_history(student / "history.parquet", train.ids.numpy())
    assert kept == [1, 2]
    place = {number: row for row, number in enumerate(train.ids.tolist())}
    for column, entry in enumerate(lines(student)):
        rows = [[place[i] for i in b.ids.tolist()] for b in batches.epoch(column)]
        means = [float(past["losses"][of, column].mean()) for of in rows]
        assert fmean(means) == pytest.approx(entry["train_loss"], rel=1e-6)
    assert (past["weights"] == 1).all()


def test_weights_kept_are_those_of_the_epochs_entry(trained) -> None:
    student = trained / "students" / "margin-loss-seed0"
    table = read_examples(student / "examples.parquet")
    _, past = read_example_history(student / "history.parquet", table["id"])
    wrong = table["given"] != table["true"]
    for column, entry in enumerate(lines(student)):
        weights = past["weights"][:, column]
        assert weights[wrong].mean() == pytest.approx(entry["weight_wrong"], rel=1e-5)
        assert weights[~wrong].mean() == pytest.approx(entry["weight_right"], rel=1e-5)


def test_held_out_examples_are_judged_like_those_trained_on(trained) -> None:
    for student in (trained / "students").iterdir():
        table = read_examples(student / "held-out.parquet")
        result = content(student / "result.json")
        assert len(table["id"]) == 9
        right = (table["given"] == table["predicted"]).mean()
        assert right == pytest.approx(result["held_out_accuracy"])
        trained_on = read_examples(student / "examples.parquet")["id"]
        assert not set(table["id"]) & set(trained_on)


def test_a_table_of_other_examples_is_refused(trained) -> None:
    file = trained / "students" / "untaught-seed0" / "history.parquet"
    with pytest.raises(ValueError, match="about other examples"):
        read_example_history(file, np.arange(39))


def test_ids_of_a_step_on_a_card_find_what_is_known_of_them_on_the_cpu() -> None:
    class OnCard:  # which indexes no tensor of the CPU
        def cpu(self) -> torch.Tensor:
            return torch.tensor([1, 0])

    ids: Any = OnCard()
    losses, weights = torch.zeros(2), torch.tensor([0.25, 1.0])
    standing = TrainState()
    _add_step(
        standing,
        StepResult(losses.sum(), losses, weights, ids, None),
        torch.tensor([False, True]),
    )
    assert standing.weights == [1.0, 0.25]

"""Cross-fitting falls back on what checked examples show to be better, and on nothing else."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.trained import content
from tutelage.crossfit import CrossFitted, StagePredictions
from tutelage.crossfit.fold_settings import TRIED, FoldSettings
from tutelage.crossfit.likelihoods import calibrated_log_likelihood, significantly_worse
from tutelage.crossfit.stages import FoldStages
from tutelage.losses.objectives import cross_entropy
from tutelage_cli.train.controls import plans
from tutelage_cli.train.controls.folds import STAGES
from tutelage_cli.train.controls.plans import STAGE_NAMES, select


@dataclass
class Inputs:
    job: int
    material: Any


LABELS = torch.arange(24) % 3
LONGEST = TRIED[1]
"""the longest trial with the run's own weight decay"""


def predictions(right: list[int], sure: float = 0.8) -> Tensor:
    """Of 24 checked examples, those of some rows right and of the others wrong."""
    hit = torch.zeros(24, dtype=torch.bool)
    hit[right] = True
    said = LABELS.where(hit, (LABELS + 1) % 3)
    p = torch.full((24, 3), (1 - sure) / 2)
    return p.scatter(1, said[:, None], sure)


def selected(
    monkeypatch,
    tmp_path,
    said: dict[str, Tensor],
    labels: Tensor = LABELS,
    chosen: FoldSettings = TRIED[0],
) -> str:
    data = FoldStages(torch.tensor([0, 1, 2] * 2), torch.tensor([0, 1] * 3), labels)
    train = torch.full((6, 3), 1 / 3)
    by_arm = {
        arm: StagePredictions(train, said[name], said[name])
        for arm, name in zip(STAGES, STAGE_NAMES, strict=True)
    }
    monkeypatch.setattr(plans, "read_out_of_fold", lambda _, arm, __: by_arm[arm])
    monkeypatch.setattr(plans, "seconds_of_folds", lambda *_: 1.0)
    monkeypatch.setattr(plans, "fold_stages_of", lambda *_: data)
    monkeypatch.setattr(plans, "chosen_settings", lambda _: chosen)
    monkeypatch.setattr(plans, "chosen_distilled", lambda *_: chosen)
    untaught = said.get("untaught"), 4.0
    monkeypatch.setattr(plans, "_by_untaught", lambda _: untaught)
    settings = SimpleNamespace(rounds=2)
    case: Any = SimpleNamespace(
        material=None, job=SimpleNamespace(folder=tmp_path, settings=settings)
    )
    found, seconds = select(case)
    assert seconds == (7 if chosen == LONGEST else 3)
    kept = content(tmp_path / "selected.json")
    assert STAGE_NAMES.index(kept["stage"]) == found.selected
    assert (kept["trained_on"] == "given labels") == found.train_on_given_labels
    return kept["stage"] if kept["trained_on"] == "posteriors" else kept["trained_on"]


def of(*counts: int) -> dict[str, Tensor]:
    return {
        method: predictions(list(range(n)))
        for method, n in zip(STAGE_NAMES, counts, strict=True)
    }


@pytest.mark.parametrize(
    ("right", "method"),
    [
        ((12, 12, 12), "distilled"),
        ((12, 18, 20), "distilled"),
        ((18, 20, 19), "distilled"),  # a label less is within two standard errors
        ((12, 20, 10), "corrected"),
        ((20, 8, 8), "given labels"),
    ],
)
def test_the_last_way_is_taken_that_is_not_shown_to_be_worse(
    monkeypatch, tmp_path, right, method
) -> None:
    assert selected(monkeypatch, tmp_path, of(*right)) == method


@pytest.mark.parametrize(
    ("untaught", "chosen", "method"),
    [
        (23, LONGEST, "given labels"),
        (13, LONGEST, "distilled"),  # a label more is within two standard errors
        (23, TRIED[0], "distilled"),  # fewer steps are better: it is not compared
        (23, TRIED[2], "distilled"),  # so is more weight decay
    ],
)
def test_given_labels_are_taken_where_longer_training_on_them_is_shown_to_be_better(
    monkeypatch, tmp_path, untaught, chosen, method
) -> None:
    said = of(12, 12, 12) | {"untaught": predictions(list(range(untaught)))}
    assert selected(monkeypatch, tmp_path, said, chosen=chosen) == method
    assert ("untaught" in content(tmp_path / "selected.json")["log_likelihood"]) == (
        chosen == LONGEST
    )


def test_an_untaught_student_that_diverged_shows_nothing(monkeypatch, tmp_path) -> None:
    said = of(12, 12, 12) | {"untaught": torch.full((24, 3), float("nan"))}
    assert selected(monkeypatch, tmp_path, said, chosen=LONGEST) == "distilled"


def test_how_sure_a_way_is_does_not_count(monkeypatch, tmp_path) -> None:
    said = of(18, 18, 18)
    said["distilled"] = predictions(list(range(18)), sure=0.999)
    assert selected(monkeypatch, tmp_path, said) == "distilled"
    one, other = (
        calibrated_log_likelihood(said[method], LABELS) for method in ("plain", "distilled")
    )
    assert float(one.mean()) == pytest.approx(float(other.mean()), abs=5e-3)


def test_a_single_checked_example_judges_nothing(monkeypatch, tmp_path) -> None:
    said = {method: predictions([0, 1])[:1] for method in STAGE_NAMES}
    said["distilled"] = predictions([])[:1]
    assert selected(monkeypatch, tmp_path, said, LABELS[:1]) == "distilled"


def test_worse_is_by_more_than_two_standard_errors_of_paired_differences() -> None:
    other = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gains = torch.tensor([-1.0, 1.0] * 10, dtype=torch.float64)
    error = float(gains.std()) / 20**0.5
    assert not significantly_worse(other + gains - 1.98 * error, other)
    assert significantly_worse(other + gains - 2.02 * error, other)


@pytest.mark.parametrize("how", ["given labels", "corrected loss", "posteriors"])
def test_the_final_student_trains_as_cross_fitting_says(how, monkeypatch) -> None:
    table, posterior, made = torch.eye(2), torch.tensor([[0.2, 0.8]]), []
    given, correct = how == "given labels", how == "corrected loss"
    chosen = CrossFitted((), 0, given, correct, TRIED[0], 1.0, table, posterior, 1.0, "")
    labels = SimpleNamespace(train=SimpleNamespace(labels=torch.tensor([1])))
    monkeypatch.setattr(plans, "select", lambda _: (chosen, 5.0))
    monkeypatch.setattr(plans, "_with_decay", lambda job, _: job + 1)
    monkeypatch.setattr(plans, "with_checked", lambda *_: ("given labels", "index"))
    monkeypatch.setattr(plans, "on_posteriors", lambda *_: ("posteriors", "index"))
    monkeypatch.setattr(plans, "corrected", lambda _, table: ("corrected loss", "index", table))
    monkeypatch.setattr(
        plans, "plain_training", lambda *args, weights: made.append((*args, weights))
    )
    plans.PLANS["cross-fitted"](Inputs(1, labels))  # pyright: ignore[reportArgumentType]
    [(inputs, batches, index, seconds, objective, weights)] = made
    assert (inputs, batches, index, seconds) == (Inputs(2, labels), how, "index", 5.0)
    assert weights.tolist() == [posterior[0, 1]]
    if correct:
        assert torch.equal(objective, table)
    else:
        assert objective is cross_entropy

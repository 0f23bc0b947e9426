"""Cross-fitting falls back on what checked examples show to be better, and on nothing else."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tutelage.crossfit.likelihoods import calibrated, worse
from tutelage_cli.train.controls import plans, selection
from tutelage_cli.train.controls.folds import OutOfFold
from tutelage_cli.train.controls.selection import CANDIDATES, Selected, select

LABELS = torch.arange(24) % 3


def predictions(right: list[int], sure: float = 0.8) -> Tensor:
    """Of 24 checked examples, those of some rows right and of the others wrong."""
    hit = torch.zeros(24, dtype=torch.bool)
    hit[right] = True
    said = LABELS.where(hit, (LABELS + 1) % 3)
    p = torch.full((24, 3), (1 - sure) / 2)
    return p.scatter(1, said[:, None], sure)


def selected(monkeypatch, tmp_path, said: dict[str, Tensor], labels: Tensor = LABELS) -> str:
    train = torch.full((6, 3), 1 / 3)
    material: Any = SimpleNamespace(
        held_out=SimpleNamespace(labels=labels),
        train=SimpleNamespace(labels=torch.tensor([0, 1, 2] * 2)),
    )
    by_arm = {CANDIDATES[method]: OutOfFold(train, p, p, 1.0) for method, p in said.items()}
    monkeypatch.setattr(selection, "read_out_of_fold", lambda _, arm, __: by_arm[arm])
    case: Any = SimpleNamespace(
        material=material,
        job=SimpleNamespace(folder=tmp_path, settings=SimpleNamespace(rounds=2)),
    )
    found = select(case)
    assert found.seconds == 4
    return found.method


def of(*counts: int) -> dict[str, Tensor]:
    return {
        method: predictions(list(range(n)))
        for method, n in zip(CANDIDATES, counts, strict=True)
    }


@pytest.mark.parametrize(
    ("right", "method"),
    [
        ((12, 12, 12, 12), "two rounds"),
        ((12, 14, 18, 20), "two rounds"),
        ((18, 18, 20, 19), "two rounds"),  # a label less is within two standard errors
        ((12, 14, 20, 10), "one round"),
        ((12, 20, 8, 8), "fine-tuned"),
        ((20, 10, 8, 8), "plain"),
    ],
)
def test_the_last_way_is_taken_that_is_not_shown_to_be_worse(
    monkeypatch, tmp_path, right, method
) -> None:
    assert selected(monkeypatch, tmp_path, of(*right)) == method


def test_how_sure_a_way_is_does_not_count(monkeypatch, tmp_path) -> None:
    said = of(18, 18, 18, 18)
    said["two rounds"] = predictions(list(range(18)), sure=0.999)
    assert selected(monkeypatch, tmp_path, said) == "two rounds"
    one, other = (calibrated(said[method], LABELS) for method in ("plain", "two rounds"))
    assert float(one.mean()) == pytest.approx(float(other.mean()), abs=5e-3)


def test_a_single_checked_example_judges_nothing(monkeypatch, tmp_path) -> None:
    said = {method: predictions([0, 1])[:1] for method in CANDIDATES}
    said["two rounds"] = predictions([])[:1]
    assert selected(monkeypatch, tmp_path, said, LABELS[:1]) == "two rounds"


def test_worse_is_by_more_than_two_standard_errors_of_paired_differences() -> None:
    other = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gains = torch.tensor([-1.0, 1.0] * 10, dtype=torch.float64)
    error = float(gains.std()) / 20**0.5
    assert not worse(other + gains - 1.98 * error, other)
    assert worse(other + gains - 2.02 * error, other)


@pytest.mark.parametrize("method", ["plain", "fine-tuned"])
def test_what_is_fallen_back_on_is_trained_as_the_control_is(monkeypatch, method) -> None:
    start = SimpleNamespace(seconds=2.0)
    own = SimpleNamespace(start=start)
    monkeypatch.setitem(plans.FALLBACKS, method, lambda _: own)
    nothing = torch.empty(0)
    chosen = Selected(method, OutOfFold(nothing, nothing, nothing, 0), nothing, 5.0)
    monkeypatch.setattr(plans, "select", lambda _: chosen)
    found: Any = plans.PLANS["cross-fitted"](SimpleNamespace())  # pyright: ignore[reportArgumentType]
    assert found is own
    assert start.seconds == (7.0 if method == "fine-tuned" else 5.0)

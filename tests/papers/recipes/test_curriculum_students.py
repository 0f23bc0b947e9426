"""Students under a curriculum: what the arms share, and where they part."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from papers.raghu2021commentaries import curriculum_cifar
from papers.raghu2021commentaries.curriculum_cifar import CIFAR10 as RECIPE
from papers.raghu2021commentaries.curriculum_cifar import PLACES, StudentSettings, taught

pytestmark = pytest.mark.usefixtures("real_data")
CPU = torch.device("cpu")
N = 2
SMALL = replace(
    RECIPE.settings["smoke"], students=(StudentSettings("cnn", 2 * N),) * 3, looks=4
)


class Level(nn.Module):
    """The same logit for every image: high up to the iteration N, low beyond or blind to it."""

    def __init__(self, beyond: float) -> None:
        super().__init__()
        self.beyond = beyond

    def forward(self, images: Tensor) -> Tensor:
        late = images[:, -1, :1, :1].flatten(1) > 1
        return torch.where(late, self.beyond, 40.0)


def curves(arm: str, network: nn.Module, monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """Test accuracies under weights by ``network``."""
    monkeypatch.setattr(curriculum_cifar, "_commentary", lambda *_, **__: (network, ()))
    series = taught(arm, 0, SMALL, CPU).series
    return [list(series[place]) for place in PLACES]


def test_weights_of_one_teach_as_no_weights_do(monkeypatch):
    ones = curves("curriculum", Level(40.0), monkeypatch)
    assert ones == curves("none", Level(40.0), monkeypatch)


def test_clipping_hides_that_a_student_trains_for_longer(monkeypatch):
    plain = curves("none", Level(-200.0), monkeypatch)
    assert curves("clipped", Level(-200.0), monkeypatch) == plain
    beyond = curves("curriculum", Level(-200.0), monkeypatch)
    assert beyond != plain


def test_areas_and_ends_are_those_of_the_curves(monkeypatch):
    monkeypatch.setattr(curriculum_cifar, "_commentary", lambda *_, **__: (Level(40.0), ()))
    found = taught("curriculum", 0, SMALL, CPU)
    for place in PLACES:
        curve = list(found.series[place])
        assert len(curve) == SMALL.looks
        assert found.metrics[f"area_{place}"] == pytest.approx(sum(curve) / len(curve))
        assert found.metrics[f"final_{place}"] == curve[-1]
    assert found.metrics["weight"] == 1.0
    assert found.metrics["spread"] == 0.0

"""Self-paced learning keeps the easiest share of each batch, which grows."""

import pytest
import torch
from torch import Tensor

from tests.cases import stream
from tutelage.teachers import SelfPaced
from tutelage.types import Observation, Progress, as_prepared


def kept(losses: Tensor, fraction: float, **settings: float) -> list[float]:
    seen = Observation(losses, losses.unsqueeze(1), {}, Progress(fraction))
    return SelfPaced(**settings).weigh(as_prepared(next(stream())), seen).tolist()


TEN = torch.tensor([9, 1, 8, 2, 7, 3, 6, 4, 5, 0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("fraction", "count"), [(0.0, 5), (0.1, 6), (0.25, 8), (0.4, 9), (0.5, 10), (1.0, 10)]
)
def test_the_share_grows_from_half_to_all_over_the_first_half(fraction, count) -> None:
    # 10 min(1, 0.5 + 0.5 t / (T / 2)), rounded
    assert kept(TEN, fraction) == [float(loss < count) for loss in TEN.tolist()]


def test_start_and_full_at_are_its_ends() -> None:
    assert sum(kept(TEN, 0.0, start=0.2, full_at=1.0)) == 2
    assert sum(kept(TEN, 0.5, start=0.2, full_at=1.0)) == 6
    assert sum(kept(TEN, 1.0, start=0.2, full_at=1.0)) == 10


def test_at_least_one_example_is_kept_and_equal_losses_go_by_place() -> None:
    assert kept(torch.tensor([3.0]), 0.0, start=0.1) == [1.0]
    assert kept(torch.ones(4), 0.0) == [1, 1, 0, 0]


def test_a_loss_that_is_not_finite_is_the_hardest() -> None:
    losses = torch.tensor([float("nan"), 2.0, float("inf"), 1.0])
    assert kept(losses, 0.0) == [0, 1, 0, 1]


@pytest.mark.parametrize("settings", [{"start": 0.0}, {"full_at": 0.0}, {"start": 1.1}])
def test_shares_that_are_none_are_refused(settings) -> None:
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        SelfPaced(**settings)

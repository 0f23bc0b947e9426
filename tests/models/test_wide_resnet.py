"""Wide ResNets have the paper's parameter counts and shapes."""

import pytest
import torch

from tutelage.errors import UsageError
from tutelage.models.wide_resnet import WideResNet, wrn


def by_hand(depth, widen, classes, channels=3):
    n = (depth - 4) // 6
    total = channels * 9 * 16
    inward = 16
    for outward in (16 * widen, 32 * widen, 64 * widen):
        # First block: BN and 3x3 inward, BN and 3x3 outward, 1x1 where the channels change.
        total += 2 * inward + 9 * inward * outward + 2 * outward + 9 * outward * outward
        total += inward * outward if inward != outward else 0
        total += (n - 1) * 2 * (2 * outward + 9 * outward * outward)
        inward = outward
    return total + 2 * inward + inward * classes + classes


@pytest.mark.parametrize(
    ("depth", "widen", "millions"),
    # The paper's counts, to one decimal of a million.
    [(40, 1, 0.6), (40, 4, 8.9), (16, 8, 11.0), (28, 10, 36.5)],
)
def test_parameter_count_is_that_of_the_paper(depth, widen, millions):
    with torch.device("meta"):
        model = wrn(depth, widen, classes=10)
    count = sum(p.numel() for p in model.parameters())
    assert count == by_hand(depth, widen, 10)
    assert count / 1e6 == pytest.approx(millions, abs=0.06)


def test_wrn_28_10_has_the_widely_quoted_count():
    with torch.device("meta"):
        model = wrn(28, 10, classes=10)
    assert sum(p.numel() for p in model.parameters()) == 36_479_194


@pytest.mark.parametrize(("channels", "size"), [(3, 32), (1, 28)])
def test_pool_feeds_the_head(channels, size):
    model = wrn(10, 2, classes=5, channels=channels)
    seen = []
    model.pool.register_forward_hook(lambda *call: seen.append(call[2]))
    assert model(torch.rand(2, channels, size, size)).shape == (2, 5)
    assert seen[0].shape == (2, 128)


@pytest.mark.parametrize("depth", [4, 27, 30])
def test_depth_must_be_6n_plus_4(depth):
    with pytest.raises(UsageError, match=f"got depth {depth} but has 6n\\+4 layers"):
        WideResNet(depth, 10, 10)


def test_widen_must_be_positive():
    with pytest.raises(UsageError, match="got widen 0; take 1 or more"):
        wrn(28, 0, classes=10)

"""The ResNets with a CIFAR stem have the known parameter counts and shapes."""

import pytest
import torch

from tutelage.models.resnet_cifar_stem import resnet18_cifar, resnet34_cifar


def by_hand(blocks, classes, channels=3):
    def conv(side, inward, outward):
        return side * side * inward * outward + 2 * outward  # with its batch-norm

    total = conv(3, channels, 64)
    inward = 64
    for outward, n in zip((64, 128, 256, 512), blocks, strict=True):
        total += conv(3, inward, outward) + (2 * n - 1) * conv(3, outward, outward)
        total += conv(1, inward, outward) if inward != outward else 0
        inward = outward
    return total + 512 * classes + classes


@pytest.mark.parametrize(
    ("build", "blocks", "known"),
    [(resnet18_cifar, (2, 2, 2, 2), 11_173_962), (resnet34_cifar, (3, 4, 6, 3), 21_282_122)],
)
def test_parameter_count_is_the_known_one(build, blocks, known):
    with torch.device("meta"):
        model = build(classes=10)
    assert sum(p.numel() for p in model.parameters()) == by_hand(blocks, 10) == known


@pytest.mark.parametrize(("channels", "size"), [(3, 32), (1, 28)])
def test_pool_feeds_the_head(channels, size):
    model = resnet18_cifar(classes=5, channels=channels)
    seen = []
    model.pool.register_forward_hook(lambda *call: seen.append(call[2]))
    assert model(torch.rand(2, channels, size, size)).shape == (2, 5)
    assert seen[0].shape == (2, 512)


def test_stem_keeps_the_resolution_and_three_stages_halve_it():
    model = resnet18_cifar(classes=2)
    shapes = []
    for part in (model.conv, model.stage1, model.stage2, model.stage3, model.stage4):
        part.register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape[1:])))
    model(torch.rand(1, 3, 32, 32))
    assert shapes == [(64, 32, 32), (64, 32, 32), (128, 16, 16), (256, 8, 8), (512, 4, 4)]

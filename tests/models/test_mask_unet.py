"""One logit per pixel for images of any size, whatever else is in the batch."""

import pytest
import torch
from torch import nn

from tutelage.errors import UsageError
from tutelage.models import MaskUNet


def unet(channels: int = 3, **sizes: int) -> MaskUNet:
    torch.manual_seed(0)
    return MaskUNet(channels, **sizes)


@pytest.mark.parametrize("size", [(32, 32), (28, 28), (1, 1), (5, 7), (33, 17), (2, 40)])
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_images_of_any_size_get_one_logit_per_pixel(size, levels) -> None:
    images = torch.rand(2, 3, *size)
    assert unet(width=4, levels=levels)(images).shape == (2, 1, *size)


def test_the_gradient_reaches_every_parameter() -> None:
    network = unet(1, width=4)
    weights = torch.randn(3, 1, 9, 11)
    (
        network(torch.rand(3, 1, 9, 11)).flatten(1).softmax(1) * weights.flatten(1)
    ).sum().backward()
    for name, p in network.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


def test_an_image_alone_gets_what_it_gets_in_a_batch_in_either_mode() -> None:
    network, images = unet().double(), torch.rand(4, 3, 12, 12, dtype=torch.float64)
    together = network(images)
    torch.testing.assert_close(network(images[2:3]), together[2:3])
    torch.testing.assert_close(network.eval()(images), together)
    assert not any(isinstance(part, nn.BatchNorm2d) for part in network.modules())


def test_logits_are_near_uniform_at_first() -> None:
    logits = unet()(torch.randn(4, 3, 32, 32))
    assert logits.flatten(1).std(1).max() < 1


@pytest.mark.parametrize("sizes", [{"width": 0}, {"levels": 0}])
def test_a_network_of_nothing_is_refused(sizes) -> None:
    with pytest.raises(UsageError, match="must be 1 or above"):
        unet(**sizes)

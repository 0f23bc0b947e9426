"""A fixed policy as a teacher: what the policy does to images, on normalised ones, too."""

import pytest
import torch

from tests.augment.oracle import photos
from tutelage.augment import AutoAugment, RandAugment, TrivialAugment, UniformAugment
from tutelage.errors import UsageError
from tutelage.teachers import FixedAugmentation
from tutelage.types import Batch

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def batch(count: int = 16) -> Batch:
    images = photos(count).double() / 255
    return Batch(images, torch.zeros(count).long(), torch.arange(count) + 7, seed=5)


@pytest.mark.parametrize(
    "policy", [AutoAugment(), RandAugment(), TrivialAugment(), UniformAugment()], ids=repr
)
def test_it_does_what_its_policy_does(policy):
    given = batch()
    expected = policy(given.inputs, seed=given.seed, ids=given.ids)
    assert not expected.equal(given.inputs)
    prepared = FixedAugmentation(policy).prepare(given)
    assert prepared.inputs.equal(expected)
    assert prepared.targets.equal(given.targets)
    m, s = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in (MEAN, STD))
    normalised = given._replace(inputs=(given.inputs - m) / s)
    found = FixedAugmentation(policy, mean=MEAN, std=STD).prepare(normalised).inputs
    assert torch.allclose(found * s + m, expected, atol=1e-12)
    untouched = (expected == given.inputs).flatten(1).all(1)
    assert torch.allclose(found[untouched], normalised.inputs[untouched], atol=1e-12)


def test_what_is_no_image_is_refused():
    with pytest.raises(ValueError, match="do not go together"):
        FixedAugmentation(RandAugment(), mean=MEAN)
    given = batch()
    with pytest.raises(UsageError, match="of 1 channels, but the images have 3"):
        FixedAugmentation(RandAugment(), mean=(0.5,), std=(0.2,)).prepare(given)
    with pytest.raises(UsageError, match="give mean and std"):
        FixedAugmentation(RandAugment()).prepare(given._replace(inputs=given.inputs * 4 - 2))

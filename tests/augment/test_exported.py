"""What a policy says of torchvision's functions is what its operations do."""

import json

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import functional as F

from tests.augment.oracle import photos
from tests.augment.test_operations import halfway
from tutelage.augment import SPACES, apply_operations
from tutelage.augment.exported import APPROXIMATE, exported
from tutelage.augment.geometry import MOVING
from tutelage.augment.operations import PLACE


def policy_of(space, size=(32, 32)):
    many = len(space.operations)
    even = [[1 / space.levels] * space.levels] * many
    return json.loads(json.dumps(exported(space, [0.5, 0.5], [0.25] * many, even, size)))


@pytest.mark.parametrize("name", ["wide-long", "standard"])
def test_every_call_gives_our_bytes(name):
    space, image = SPACES[name], photos(1)
    policy, values = policy_of(space), space.values(32, 32)
    assert [o["name"] for o in policy["operations"]] == list(space.operations)
    for row, operation in enumerate(policy["operations"]):
        kind = operation["name"]
        assert len(operation["calls"]) == len(operation["strength"]) == 31
        if kind in APPROXIMATE:
            continue
        for level, calls in enumerate(operation["calls"]):
            signs = np.unique(values[row, level])
            theirs = {getattr(F, f)(image[0], **given).numpy().tobytes() for f, given in calls}
            unclear = torch.zeros(32, 32, dtype=torch.bool)
            if kind in MOVING:
                unclear = halfway(kind, signs, 32, 32).any(0)
            ours = apply_operations(
                image.repeat(len(signs), 1, 1, 1),
                np.full(len(signs), PLACE[kind]),
                signs,
                np.zeros((len(signs), 2)),
            )
            for one in ours:
                found = [
                    torch.frombuffer(bytearray(t), dtype=torch.uint8).view_as(one)
                    for t in theirs
                ]
                off = [((one.int() - t.int()).abs().amax(0) > 1) & ~unclear for t in found]
                assert any(not o.any() for o in off), (kind, level)


def test_what_torchvision_lacks_is_near_and_named():
    space, image = SPACES["wide-long"], photos(1)
    policy = policy_of(space)
    assert policy["approximate"] == ["blur", "cutout"]
    by_name = {o["name"]: o for o in policy["operations"]}
    ((function, given),) = by_name["blur"]["calls"][0]
    blurred = apply_operations(image, np.array([PLACE["blur"]]), np.zeros(1), np.zeros((1, 2)))
    theirs = getattr(F, function)(image[0], **given)
    inside = (blurred[0].int() - theirs.int())[:, 2:-2, 2:-2].abs().float().mean()
    assert inside < (image[0].int() - theirs.int())[:, 2:-2, 2:-2].abs().float().mean() / 2
    white = torch.full((3, 32, 32), 255, dtype=torch.uint8)
    for level, side in ((0, 0), (10, 6), (30, 19)):
        calls = by_name["cutout"]["calls"][level]
        areas = [int((getattr(F, f)(white, **g) == 0).all(0).sum()) for f, g in calls]
        assert len(areas) == 16
        assert max(areas) == side * side
        assert min(areas) >= (side // 2) ** 2


def test_probabilities_are_handed_on():
    policy = policy_of(SPACES["standard"])
    assert sum(policy["count"]) == pytest.approx(1)
    assert all(o["keep"] == 0.25 for o in policy["operations"])
    assert all(sum(o["strength"]) == pytest.approx(1) for o in policy["operations"])

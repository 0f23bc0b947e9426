"""Every operation, at every strength, is torchvision's or Pillow's."""

import numpy as np
import pytest
import torch

from tests.augment.oracle import by_others, photos
from tests.trained import unchecked
from tutelage.augment import OPERATIONS, SPACES, UniformAugment, apply_operations, operations
from tutelage.augment.geometry import MOVING, maps_of
from tutelage.augment.operations import PLACE
from tutelage.errors import UsageError

BLENDS = ("color", "contrast", "sharpness")
"""sums that torchvision may round once or twice: a value may be off by one on some machines"""
SIZES = {"wide-long": (32, 32), "standard": (28, 28), "rand-augment": (33, 47)}


def strengths(space, name, height, width):
    """Every value of an operation, with either sign."""
    row = SPACES[space].operations.index(name)
    return np.unique(SPACES[space].values(height, width)[row])


def both(images, name, values):
    spots = np.random.default_rng(1).random((len(values), 2))
    rows = images[torch.arange(len(values)) % len(images)]
    ours = apply_operations(rows, np.full(len(values), PLACE[name]), values, spots)
    theirs = [
        by_others(image, name, value, tuple(spot))
        for image, value, spot in zip(rows, values.tolist(), spots.tolist(), strict=True)
    ]
    return ours, torch.stack(theirs)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("space", "name"), [(s, name) for s in SIZES for name in SPACES[s].operations]
)
def test_an_operation_equals_its_counterpart_at_every_strength(space, name, channels):
    height, width = SIZES[space]
    images = photos(16, channels, height, width)
    values = strengths(space, name, height, width)
    ours, theirs = both(images, name, np.resize(values, max(len(values), 16)))
    if name in BLENDS:
        off = (ours.int() - theirs.int()).abs()
        assert off.max() <= 1
        assert (off > 0).float().mean() < 1e-4
    elif name in MOVING:
        unclear = halfway(name, np.resize(values, len(ours)), height, width)
        assert unclear.float().mean() < 0.02
        same = (ours == theirs).all(1)
        assert bool((same | unclear).all())
        assert (~same).float().mean() < 2e-3
    else:
        assert torch.equal(ours, theirs)


def halfway(name, values, height, width):
    """Pixels whose source lies between two others, to float32's rounding."""
    which = np.full(len(values), 1 + MOVING.index(name))
    maps = maps_of(which, values, height, width)
    x = np.arange(width) - (width - 1) / 2
    y = np.arange(height) - (height - 1) / 2
    place = np.stack(np.broadcast_arrays(x, y[:, None], 1.0))
    source = np.einsum("bij,jhw->bihw", maps, place)
    source += np.array([(width - 1) / 2, (height - 1) / 2]).reshape(2, 1, 1)
    between = np.abs(source - np.floor(source) - 0.5) < 1e-4
    return torch.from_numpy(between.any(1))


def rounds_in_turn():
    """Whether torch's matrix product rounds every product and sum here."""
    places = torch.rand(1, 500, 3, generator=torch.Generator().manual_seed(0))
    maps = torch.rand(1, 3, 2, generator=torch.Generator().manual_seed(1))
    x, y, one = (places[0, :, None, k] for k in range(3))
    turn = (x * maps[0, 0] + y * maps[0, 1]) + one * maps[0, 2]
    return torch.equal(places.bmm(maps)[0], turn)


@pytest.mark.parametrize(("height", "width"), [(17, 23), (7, 5), (33, 33), (64, 31), (97, 40)])
def test_odd_sizes_are_moved_as_by_torchvision_halfway_between_pixels_too(height, width):
    images, found = photos(2, 3, height, width), False
    for name in MOVING:
        values = np.array(
            [0.1, 0.2, 0.3, 0.5, 0.06] if "shear" in name else [2, 9, 30, 45, 90.0]
        )
        ours, theirs = both(images, name, values)
        unclear = halfway(name, values, height, width)
        found = found or bool(unclear.any())
        same = (ours == theirs).all(1)
        assert bool(same.all() if rounds_in_turn() else (same | unclear).all()), name
    assert found


@pytest.mark.parametrize("name", ["translate_x", "translate_y", "flip_lr", "flip_ud"])
def test_whole_moves_and_mirrors_are_exact_for_large_odd_images(name):
    images = photos(4, 3, 97, 131)
    ours, theirs = both(images, name, np.array([-31.0, -1.0, 8.0, 30.0]))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("shape", [(3, 1, 1, 1), (2, 3, 2, 9), (2, 3, 4, 3), (5, 1, 32, 64)])
@pytest.mark.parametrize("value", [0.0, 1.0, 7.0])
def test_images_of_few_pixels_or_one_colour_are_borne_as_the_others_bear_them(shape, value):
    for fill in (0, 17, 255):
        images = torch.full(shape, fill, dtype=torch.uint8)
        for name in OPERATIONS:
            ours, theirs = both(images, name, np.full(len(images), value))
            limit = 1 if name in BLENDS else 0
            assert (ours.int() - theirs.int()).abs().max() <= limit, name


def test_each_image_of_a_batch_gets_its_own_operation():
    images, rng = photos(190), np.random.default_rng(0)
    names = rng.permutation(np.arange(190) % len(OPERATIONS))
    values, spots = np.full(190, 3.0), rng.random((190, 2))
    together = apply_operations(images, names, values, spots)
    for row in range(190):
        alone = apply_operations(
            images[row : row + 1], *(a[row : row + 1] for a in (names, values, spots))
        )
        assert torch.equal(together[row : row + 1], alone), OPERATIONS[names[row]]


@pytest.mark.parametrize("pixels", [1, 32 * 32, 5 * 32 * 32])
def test_batches_changed_piece_by_piece_come_out_the_same(pixels, monkeypatch):
    policy, images = UniformAugment(4), photos(48)
    whole = policy(images, seed=3)
    monkeypatch.setattr(operations, "PIXELS", pixels)
    assert policy(images, seed=3).equal(whole)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("channels", [1, 3])
def test_real_images_become_what_bytes_become_and_keep_type_and_shape(dtype, channels):
    images = photos(len(OPERATIONS), channels)
    asked = np.arange(len(OPERATIONS)), np.full(len(OPERATIONS), 1.5), np.full((19, 2), 0.5)
    expected = apply_operations(images, *asked)
    real = (images.double() / 255).to(dtype)
    found = apply_operations(real, *asked)
    assert found.dtype == dtype
    assert found.shape == images.shape
    assert torch.equal(found[0], real[0])  # the identity keeps what bytes cannot hold
    if dtype in (torch.float32, torch.float64):
        assert torch.equal(found.mul(255).round().to(torch.uint8), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_nothing(dtype):
    images = photos(38)
    asked = np.arange(38) % 19, np.full(38, 1.5), np.full((38, 2), 0.5)
    expected = apply_operations(images, *asked)
    with torch.autocast("cpu", dtype=dtype):
        assert torch.equal(apply_operations(images, *asked), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_no_images_give_no_images(dtype):
    empty = torch.zeros(0, 3, 8, 8, dtype=dtype)
    none = np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2))
    assert apply_operations(empty, *none).shape == empty.shape


def test_images_as_they_lie_in_memory_are_left_as_they_are():
    images = photos(19).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    before = images.clone()
    asked = np.arange(19), np.full(19, 2.0), np.full((19, 2), 0.5)
    assert torch.equal(
        apply_operations(images, *asked), apply_operations(images.contiguous(), *asked)
    )
    assert torch.equal(images, before)


@pytest.mark.parametrize("shape", [(2, 4, 8, 8), (2, 2, 8, 8), (3, 8, 8), (1, 8, 8)])
def test_other_shapes_are_refused_whatever_is_drawn(shape):
    asked = np.zeros(2, np.int64), np.zeros(2), np.zeros((2, 2))
    with unchecked(), pytest.raises(UsageError, match=r"1 or 3 channels.*unsqueeze"):
        apply_operations(torch.zeros(shape, dtype=torch.uint8), *asked)


@pytest.mark.parametrize("bad", [-0.2, 1.2, float("nan"), float("inf")])
def test_normalised_images_are_refused_by_the_range_that_came(bad):
    images = torch.full((2, 3, 8, 8), 0.5)
    images[1, 2, 3, 4] = bad
    with pytest.raises(UsageError, match=r"allowed: 0..1.*give mean and std"):
        apply_operations(images, np.zeros(2, np.int64), np.zeros(2), np.zeros((2, 2)))
    with pytest.raises(UsageError, match=r"int64; allowed: torch.uint8"):
        apply_operations(images.long(), np.zeros(2, np.int64), np.zeros(2), np.zeros((2, 2)))

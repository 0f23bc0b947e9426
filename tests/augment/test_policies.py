"""Fixed policies have their published spaces and draw the same however batches are cut."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2
from torchvision.transforms.autoaugment import AutoAugmentPolicy

from tests.augment.oracle import by_others, photos
from tutelage.augment import (
    SPACES,
    AutoAugment,
    RandAugment,
    StandardAugmentation,
    TrivialAugment,
    UniformAugment,
    crop_and_flip,
    cutout,
    random_crop,
    random_flip,
)
from tutelage.augment.draws import ExampleRandom
from tutelage.augment.operations import OPERATIONS
from tutelage.augment.published import POLICIES
from tutelage.errors import UsageError

THEIRS = {
    "rand-augment": v2.RandAugment(),
    "trivial-wide": v2.TrivialAugmentWide(),
    "auto-augment": v2.AutoAugment(),
}
ENHANCERS = ("brightness", "color", "contrast", "sharpness")
ALL = {
    "rand": RandAugment(),
    "rand, wide": RandAugment(3, 30, "wide-long"),
    "trivial": TrivialAugment(),
    "uniform": UniformAugment(4),
    "uniform, standard": UniformAugment(space_name="standard"),
    **{f"auto, {name}": AutoAugment(name) for name in POLICIES},
    "crop and flip": crop_and_flip,
    "crop": random_crop,
    "flip": random_flip,
    "cutout": cutout,
}


def plain(name):
    """Our name for an operation of torchvision."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")


@pytest.mark.parametrize("space", THEIRS)
@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 41), (224, 224)])
def test_spaces_are_torchvisions(space, height, width):
    ours, theirs = SPACES[space], THEIRS[space]._AUGMENTATION_SPACE
    values = dict(zip(ours.operations, ours.values(height, width), strict=True))
    assert values.keys() == {plain(name) for name in theirs}
    for name, (at, signed) in theirs.items():
        found = at(ours.levels, height, width)
        expected = np.zeros(ours.levels) if found is None else found.double().numpy()
        kind = plain(name)
        sides = (1 + expected, 1 - expected) if kind in ENHANCERS else (expected, -expected)
        if kind == "solarize":
            sides = (255 * expected, 255 * expected)
        if kind.startswith("translate"):
            sides = tuple(np.trunc(side) for side in sides)
        assert np.allclose(values[kind][:, 0], sides[0], rtol=0, atol=1e-12), name
        assert np.allclose(values[kind][:, 1], sides[signed], rtol=0, atol=1e-12), name


def test_auto_augment_has_torchvisions_pairs():
    for name, pairs in POLICIES.items():
        theirs = v2.AutoAugment(AutoAugmentPolicy(name))._policies
        assert pairs == tuple(
            tuple((plain(op), p, level or 0) for op, p, level in pair) for pair in theirs
        )


def test_the_wide_and_the_standard_space_are_the_papers():
    wide, standard = SPACES["wide-long"], SPACES["standard"]
    assert (len(wide.operations), len(standard.operations)) == (19, 14)
    assert wide.operations[:14] == standard.operations
    ends = {
        "rotate": (0, 135, 0, 30),
        "solarize": (256, 0, 256, 0),
        "posterize": (8, 2, 4, 0),
        "shear_x": (0, 0.99, 0, 0.3),
        "translate_y": (0, 32, 0, 10),
        **dict.fromkeys(ENHANCERS, (0.01, 2.0, 0.1, 1.9)),
    }
    for name, (first, last, low, high) in ends.items():
        row = wide.operations.index(name)
        assert wide.values(32, 32)[row, [0, 30], 0] == pytest.approx([first, last])
        assert standard.values(32, 32)[row, [0, 30], 0] == pytest.approx([low, high])
    sides = wide.values(32, 32)[wide.operations.index("cutout"), :, 0]
    assert sides.tolist() == [int(m / 30 * 0.6 * 32 + 1e-9) for m in range(31)]
    turned = wide.values(32, 32)[wide.operations.index("rotate"), :, 1]
    assert turned.tolist() == [-int(m / 30 * 135) for m in range(31)]
    bits = wide.values(32, 32)[wide.operations.index("posterize"), :, 0]
    assert bits.tolist() == [8 - int(m / 30 * 6) for m in range(31)]


@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_images_however_batches_are_cut(name):
    images, ids, change = photos(64), torch.randperm(64) + 100, ALL[name]
    whole = change(images, seed=3, ids=ids)
    order = torch.randperm(64)
    cut = [change(images[at], seed=3, ids=ids[at]) for at in order.split([1, 30, 2, 31])]
    assert torch.equal(torch.cat(cut), whole[order])
    assert not torch.equal(change(images, seed=4, ids=ids), whole)


class Augmented(Dataset):
    """Examples that are augmented where they are read, as workers do."""

    def __init__(self, images):
        self.images, self.epoch = images, 0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, asked):
        epoch, row = asked
        one = TrivialAugment("wide-long")(
            self.images[row : row + 1], seed=epoch, ids=torch.tensor([row])
        )
        return row, one[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_draw_what_one_process_draws_and_each_epoch_anew(workers):
    # equal images: what differs was drawn differently
    images = photos(1).repeat(8, 1, 1, 1)
    data = Augmented(images)
    orders = [[(epoch, row) for row in (3, 1, 7, 0, 2, 6, 5, 4)] for epoch in (0, 1)]
    epochs = []
    for order in orders:
        found = torch.empty_like(images)
        for rows, changed in DataLoader(data, 2, sampler=order, num_workers=workers):
            found[rows] = changed
        epochs.append(found)
    for epoch, found in enumerate(epochs):
        alone = TrivialAugment("wide-long")(images, seed=epoch, ids=torch.arange(8))
        assert torch.equal(found, alone)
        assert len({image.numpy().tobytes() for image in found}) >= 7
    assert not torch.equal(*epochs)


def test_rand_augment_does_what_its_actions_say_one_after_the_other():
    images, policy = photos(40), RandAugment(2, 9, "wide-long")
    actions = policy.draw(ExampleRandom(8, None, 40))
    values = policy.space.values(32, 32)
    for row, changed in enumerate(policy(images, seed=8)):
        image = images[row]
        for slot in range(2):
            operation = actions.operation[row, slot]
            name = OPERATIONS[policy.space.places[operation]]
            value = values[operation, 9, int(actions.negative[row, slot])]
            image = by_others(image, name, value, tuple(actions.spot[row, slot]))
        assert (image != changed).float().mean() < 0.02  # halfway between pixels, either


def test_probabilities_are_the_published_ones():
    draws = ExampleRandom(0, None, 5000)
    uniform = UniformAugment().draw(draws)
    assert (uniform.operation[:, 0] != uniform.operation[:, 1]).all()
    assert abs(uniform.kept.mean() - 0.5) < 0.025
    assert abs(uniform.negative.mean() - 0.5) < 0.025
    trivial = TrivialAugment().draw(draws)
    assert trivial.kept.all()
    for drawn, many in ((trivial.operation, 14), (trivial.level, 31)):
        counts = np.bincount(drawn[:, 0], minlength=many)
        assert np.abs(counts - 5000 / many).max() < 5 * np.sqrt(5000 / many)
    auto = AutoAugment("cifar10").draw(draws)
    names = SPACES["auto-augment"].operations
    expected = sum(b[1] for _, b in POLICIES["cifar10"] if b[0] == "brightness") / 25
    second = auto.kept[:, 1] & (auto.operation[:, 1] == names.index("brightness"))
    assert abs(second.mean() - expected) < 0.02


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("crop", "flip", "cutout")])
@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("channels", [1, 3])
def test_odd_batches_of_any_type_keep_type_and_shape(name, count, channels):
    for images in (photos(7, channels)[:count], photos(7, channels)[:count] / 255):
        changed = ALL[name](images, seed=0)
        assert changed.dtype == images.dtype
        assert changed.shape == images.shape


def test_grey_images_are_borne_by_every_draw():
    grey = torch.zeros(300, 1, 16, 33, dtype=torch.uint8)
    for policy in (RandAugment(4, 30, "wide-long"), AutoAugment(), UniformAugment(19)):
        assert policy(grey, seed=0).shape == grey.shape


def test_without_a_seed_every_call_draws_anew_from_torchs_generator():
    images, policy = photos(8), TrivialAugment()
    torch.manual_seed(1)
    first, second = policy(images), policy(images)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(policy(images), first)
    state = torch.get_rng_state()
    policy(images, seed=5)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_does_not_exist_is_refused_with_what_does():
    with pytest.raises(UsageError, match=r"unknown search space 'wide'"):
        TrivialAugment("wide")
    with pytest.raises(UsageError, match=r"level 31; allowed: 0..30"):
        RandAugment(2, 31)
    with pytest.raises(UsageError, match=r"count 20; allowed: 0..19"):
        UniformAugment(20)
    with pytest.raises(UsageError, match=r"count must be 0 or above"):
        RandAugment(-1)
    with pytest.raises(UsageError, match=r"unknown policy 'cifar'. Did you mean 'cifar10'"):
        AutoAugment("cifar")


def test_the_layer_augments_in_training_and_normalises_always():
    layer = StandardAugmentation((0.5, 0.4, 0.3), (0.2, 0.2, 0.2), side=8)
    images = photos(16) / 255
    torch.manual_seed(0)
    first, second = layer(images), layer(images)
    torch.manual_seed(0)
    assert torch.equal(layer(images), first)
    assert not torch.equal(first, second)
    assert ((first == 0).all(1).flatten(1).sum(1) >= 16).all()  # a quarter of 8 x 8 at least
    mean = torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)
    assert torch.equal(layer.eval()(images), (images - mean) / torch.full((3, 1, 1), 0.2))
    with pytest.raises(UsageError, match=r"do not go together"):
        StandardAugmentation((0.5,), (0.0,))


def test_a_cutout_may_lie_partly_outside_and_is_refused_below_zero():
    images = torch.ones(500, 1, 12, 12)
    areas = 144 - cutout(images, seed=0, side=6).flatten(1).sum(1)
    assert set(areas.unique().tolist()) >= {9.0, 36.0}
    assert torch.equal(cutout(images, seed=0, side=0), images)
    with pytest.raises(UsageError, match=r"side is -1"):
        cutout(images, seed=0, side=-1)

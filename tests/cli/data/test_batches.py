"""Tests of minibatches."""

import pytest
import torch

from tutelage.augment import crop_and_flip
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.images import ImageSet


def image_set(count=10, channels=2, size=6):
    generator = torch.Generator().manual_seed(0)
    shape = (count, channels, size, size)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    labels = torch.arange(count) % 3
    return ImageSet(images, labels, torch.arange(count) * 2 + 5, ("a", "b", "c"), "toy")


def batches(images=None, size=4, seed=0, augment=None):
    images = image_set() if images is None else images
    collate = CollateImages(*statistics(images), augment)
    return Batches(images, size, seed, collate, torch.device("cpu"))


def augment(images, seed):
    return crop_and_flip(images, seed=seed, pad=2)


def same(first, second):
    return first.seed == second.seed and all(
        torch.equal(one, two) for one, two in zip(first[:3], second[:3], strict=True)
    )


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 9, 10])
@pytest.mark.parametrize("size", [1, 2, 4, 20])
def test_an_epoch_shows_every_example_once(count, size):
    images = image_set(count)
    source = batches(images, size)
    shown = list(source.epoch(0))
    assert len(shown) == len(source)
    assert sorted(torch.cat([batch.ids for batch in shown]).tolist()) == images.ids.tolist()


def test_a_single_last_example_joins_the_batch_before_it():
    assert [len(batch.ids) for batch in batches(image_set(9)).epoch(0)] == [4, 5]
    assert [len(batch.ids) for batch in batches(image_set(10)).epoch(0)] == [4, 4, 2]
    assert [len(batch.ids) for batch in batches(image_set(5)).epoch(0)] == [5]
    assert [len(batch.ids) for batch in batches(image_set(9)).whole(8)] == [9]


def test_the_same_seed_and_epoch_give_the_same_batches():
    first, again = (list(batches(augment=augment).epoch(3)) for _ in range(2))
    assert all(same(one, two) for one, two in zip(first, again, strict=True))


def test_epochs_and_seeds_differ_in_order():
    orders = [
        torch.cat([batch.ids for batch in batches(image_set(60), seed=seed).epoch(number)])
        for seed, number in [(0, 0), (0, 1), (1, 0)]
    ]
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])
    assert not torch.equal(orders[1], orders[2])


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_an_epoch_resumes_where_it_stopped(start):
    source = batches(augment=augment)
    tail = list(source.epoch(1))[start:]
    resumed = list(source.epoch(1, start))
    assert all(same(one, two) for one, two in zip(tail, resumed, strict=True))


def test_inputs_are_normalised_images():
    images = image_set()
    source = batches(images)
    batch = next(source.epoch(0))
    rows = (batch.ids - 5) // 2
    pixels, (mean, std) = images.images[rows].float() / 255, statistics(images)
    expected = (pixels - mean[:, None, None]) / std[:, None, None]
    torch.testing.assert_close(batch.inputs, expected)
    assert batch.inputs.dtype == torch.float32
    assert torch.equal(batch.targets, images.labels[rows])


def test_augmentation_gets_bytes_and_the_seed_of_the_batch():
    seen = []

    def record(images, seed):
        seen.append((images.dtype, seed))
        return images

    source = batches(augment=record)
    shown = [*source.epoch(0), *source.epoch(1), source.draw(0), source.draw(1)]
    assert seen == [(torch.uint8, batch.seed) for batch in shown]
    assert len({batch.seed for batch in shown}) == len(shown)
    assert all(0 <= batch.seed < 2**63 for batch in shown)


def test_draws_repeat_no_example_and_depend_on_their_number():
    source = batches(image_set(60), augment=augment)
    drawn = source.draw(7)
    assert len(drawn.ids.unique()) == 4
    assert same(drawn, source.draw(7))
    assert not torch.equal(drawn.ids, source.draw(8).ids)
    assert len(batches(image_set(3)).draw(0).ids) == 3


def test_draws_are_uniform():
    source = batches(image_set(10))
    ids = torch.cat([source.draw(number).ids for number in range(500)])
    counts = torch.bincount((ids - 5) // 2, minlength=10)
    # 200 expected; five standard deviations of 500 draws with probability 0.4 are 55.
    assert (counts - 200).abs().max() < 55


def test_the_whole_set_comes_in_order_without_augmentation():
    images = image_set()
    shown = list(batches(images, augment=augment).whole(3))
    plain = list(batches(images).whole(3))
    assert torch.equal(torch.cat([batch.ids for batch in shown]), images.ids)
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(shown, plain, strict=True))


def test_statistics_are_those_of_all_pixels():
    images = image_set(20, 3)
    mean, std = statistics(images)
    pixels = images.images.double() / 255
    torch.testing.assert_close(mean, pixels.mean((0, 2, 3)).float())
    torch.testing.assert_close(std, pixels.std((0, 2, 3), correction=0).float())


def test_flat_images_do_not_divide_by_zero():
    flat = image_set()
    flat = ImageSet(torch.full_like(flat.images, 9), flat.labels, flat.ids, flat.classes, "toy")
    assert statistics(flat)[1].tolist() == pytest.approx([1e-3, 1e-3])
    assert batches(flat).draw(0).inputs.isfinite().all()


def test_nothing_to_draw_from_is_refused():
    empty = image_set().rows(torch.arange(0))
    with pytest.raises(UsageError, match="toy has no images to take the mean of"):
        statistics(empty)
    with pytest.raises(UsageError, match="toy has no images left"):
        Batches(empty, 4, 0, CollateImages(torch.zeros(2), torch.ones(2)), torch.device("cpu"))
    with pytest.raises(UsageError, match="batch size is 0; allowed: 1 and above"):
        batches(size=0)


def test_seeds_depend_on_every_part_and_on_their_number():
    parts = [(), (0,), (1,), (1, 0), (0, 1), (2**32,), (-1,), (1, 2, 3), (3, 2, 1)]
    seeds = [mixed_seed(*part) for part in parts]
    assert len(set(seeds)) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert mixed_seed(1, 2, 3) == seeds[-2]

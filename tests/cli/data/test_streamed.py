"""Batches that worker processes read are those of memory, in their order, from any place."""

import random

import numpy as np
import pytest
import torch

from papers.data.streamed import BatchTransform
from tests.cli.data.streams import WORKERS, Drawing, Numbered, ids, same, streamed
from tests.trained import unchecked
from tutelage.augment import crop_and_flip
from tutelage.errors import UsageError
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.images import ImageSet

pytestmark = pytest.mark.filterwarnings("ignore:.*worker processes in total")  # on few cores


def image_set(count=9):
    shape = (count, 1, 6, 6)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    labels = torch.arange(count) % 3
    return ImageSet(images, labels, torch.arange(count) * 2 + 5, ("a", "b", "c"), "toy")


class OneByOne:
    def __init__(self, images):
        self.images, self.ids = images, images.ids

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        return self.images.images[row], self.images.labels[row]


def augment(images, seed):
    return crop_and_flip(images, seed=seed, pad=2)


@pytest.mark.parametrize("how", WORKERS)
def test_batches_are_those_of_the_same_images_in_memory(how):
    images = image_set()
    mean, std = statistics(images)
    memory = Batches(images, 4, 7, CollateImages(mean, std, augment), torch.device("cpu"))
    stream = streamed(
        OneByOne(images), 4, 7, transform=BatchTransform(augment, mean, std), **how
    )
    assert len(stream) == len(memory)
    for number in (0, 1, 0):
        assert same(stream.epoch(number), memory.epoch(number))
    assert same(stream.epoch(3, 1), memory.epoch(3, 1))
    assert same([stream.draw(5)], [memory.draw(5)])
    assert same(stream.whole(5), memory.whole(5))


@pytest.mark.parametrize("how", WORKERS)
def test_an_epoch_resumes_from_any_batch(how):
    stream = streamed(Drawing(9), 2, **how)
    whole = list(stream.epoch(1))
    for start in range(len(whole) + 1):
        assert same(stream.epoch(1, start), whole[start:])


@pytest.mark.parametrize("how", WORKERS)
def test_an_epoch_that_was_left_early_does_not_reach_into_the_next(how):
    stream = streamed(Numbered(20), 2, **how)
    for batch in stream.epoch(0):
        assert len(batch.ids) == 2
        break
    assert same(stream.epoch(1), streamed(Numbered(20), 2).epoch(1))


@pytest.mark.parametrize("how", WORKERS)
def test_what_a_curriculum_shows_is_seen_by_the_workers(how):
    difficulty = torch.arange(10)
    stream = streamed(Numbered(10), **how)
    for number, threshold in enumerate((3, 6, 1)):
        rows = (difficulty < threshold).nonzero().flatten()
        shown = list(stream.epoch(number, rows=rows))
        assert sorted(ids(shown)) == list(range(threshold))
        assert all(torch.equal(b.inputs[:, 0], b.ids.float()) for b in shown)


def draws(stream, number):
    """What each example drew in an epoch, by id: [N, 4]."""
    batches = list(stream.epoch(number))
    return torch.cat([batch.inputs for batch in batches])[np.argsort(ids(batches))]


@pytest.mark.parametrize("how", [*WORKERS, {"workers": 4}])
def test_every_example_draws_its_own_numbers_whoever_reads_it(how):
    stream = streamed(Drawing(8), **how)
    first, second = draws(stream, 0), draws(stream, 1)
    assert all(len(column.unique()) == 8 for column in first.T)
    assert not (first == second).any()
    assert torch.equal(draws(stream, 0), first)
    assert torch.equal(draws(streamed(Drawing(8)), 0), first)
    assert torch.equal(draws(streamed(Drawing(8), size=3), 0), first)  # cut in another way
    assert not (draws(streamed(Drawing(8), seed=5), 0) == first).any()


@pytest.mark.parametrize("how", WORKERS)
def test_nothing_is_drawn_from_the_callers_generators(how):
    def states():
        numpy = str(np.random.get_state())  # noqa: NPY002 - that of other people's code
        return random.getstate(), numpy, torch.get_rng_state().tolist()

    with unchecked():  # the checks draw, too
        before = states()
        list(streamed(Drawing(8), **how).epoch(0))
        assert states() == before


@pytest.mark.parametrize(
    "generator",
    [np.random.default_rng(0), np.random.RandomState(0), random.Random(0), torch.Generator()],
)
def test_a_generator_that_workers_would_copy_is_refused(generator):
    examples = Numbered(4)
    vars(examples)["rng"] = generator
    with pytest.raises(UsageError, match=r"Numbered\.rng is a .*torch\.initial_seed\(\)"):
        streamed(examples)


class Large(Numbered):
    """A hundred gigabytes, as far as its length goes; counts what is read of it."""

    read = 0

    def __len__(self):
        return 100_000

    def __getitem__(self, row):
        self.read += 1
        return torch.full((250_000,), float(row)), 0


def test_what_does_not_fit_memory_is_read_as_it_is_asked_for():
    examples = Large(1)
    batches = streamed(examples, 4).epoch(0, 1000)
    assert [len(next(batches).ids) for _ in range(3)] == [4, 4, 4]
    assert examples.read == 12


class Broken(Numbered):
    def __getitem__(self, row):
        if row == 3:
            raise UsageError("example 3 is broken; mend it.")
        return super().__getitem__(row)


@pytest.mark.parametrize("how", WORKERS)
def test_a_broken_example_is_told_in_one_line_from_any_process(how):
    with pytest.raises(UsageError, match=r"^example 3 is broken; mend it\.$"):
        list(streamed(Broken(6), **how).epoch(0))


class Given(Numbered):
    """Gives what it was given."""

    def __init__(self, *found):
        super().__init__(len(found))
        self.found = found

    def __getitem__(self, row):
        return self.found[row]


class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield torch.zeros(1), 0


WRONG = {
    "none": (lambda: streamed(Given()), "no examples"),
    "no length": (lambda: streamed(Endless()), "Endless has no length.*map-style"),
    "size": (lambda: streamed(Numbered(3), 0), "batch size is 0"),
    "workers": (lambda: streamed(Numbered(3), workers=-1), "workers is -1"),
    "ids": (lambda: streamed(Numbered(3), ids=torch.arange(2)), r"shape \(2,\).*\[3\]"),
    "mean alone": (lambda: BatchTransform(mean=torch.ones(1)), "mean and std together"),
    "no rows": (lambda: streamed(Numbered(3)).epoch(0, rows=torch.arange(0)), "at least one"),
    "rows": (lambda: streamed(Numbered(3)).epoch(0, rows=torch.arange(4)), "allowed: 0..2"),
    "no pair": (lambda: streamed(Given(torch.ones(1))).epoch(0), "example 0 is a Tensor"),
    "text": (lambda: streamed(Given(("a", 0))).epoch(0), "inputs of example 0 are a str"),
    "shapes": (
        lambda: streamed(Given((torch.ones(2), 0), (torch.ones(3), 0))).epoch(0),
        r"shape \([23],\), those of example .*one shape",
    ),
    "floats as bytes": (
        lambda: streamed(
            Numbered(3), transform=BatchTransform(mean=torch.ones(1), std=torch.ones(1))
        ).epoch(0),
        r"inputs are torch.float32, but mean and std are for torch.uint8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_of_a_stream_is_told(name):
    use, told = WRONG[name]
    with unchecked(), pytest.raises(UsageError, match=told):
        list(use())


def test_two_epochs_at_once_on_persistent_workers_are_refused():
    stream = streamed(Numbered(12), workers=2, persistent=True)
    first = stream.epoch(0)
    next(first)
    next(stream.epoch(1))
    with pytest.raises(RuntimeError, match="another epoch was begun"):
        list(first)

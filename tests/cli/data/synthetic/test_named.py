"""The named sets are made from the real ones."""

import pytest
import torch

from tests.cli.data.made_up import splits
from tutelage_cli.data.sources import WORDS, load
from tutelage_cli.data.synthetic import named
from tutelage_cli.data.synthetic.named import Sizes
from tutelage_cli.data.synthetic.rotated_ones import SEPARATE

SOME = Sizes(40, 30, 20)


@pytest.fixture
def _small(monkeypatch):
    """Toys in place of the real sets, and few images to make."""

    def known(name):
        channels, side = {"mnist": (1, 28), "cifar10": (3, 32), "cifar100": (3, 32)}[name]
        classes = 100 if name == "cifar100" else 10
        return splits(
            train=1000, test=400, classes=classes, channels=channels, side=side, name=name
        )

    monkeypatch.setattr(named, "load_known", known)
    monkeypatch.setattr(named, "SIZES", SOME)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("word", sorted(set(WORDS) - {"mnist5k"}))
def test_every_word_gives_a_train_and_a_test_split(word):
    made = load(word)
    assert (len(made.train), len(made.test)) == (40, 20)
    assert torch.equal(load(word).train.images, made.train.images)


@pytest.mark.usefixtures("_small")
def test_objects_come_again_only_after_all_others():
    parts = named.object_parts(Sizes(700, 3, 3), seed=0)
    times = torch.bincount(parts.train.facts["base"] - 100)
    assert sorted(set(times[times > 0].tolist())) == [1, 2]
    assert int((times > 0).sum()) == 500


@pytest.mark.usefixtures("_small")
def test_train_and_held_out_are_made_of_different_digits_and_backgrounds():
    made = named.digit_parts(SOME, seed=0)
    for fact in ("base", "background_id"):
        train, held_out = (set(part.facts[fact].tolist()) for part in made[:2])
        assert not train & held_out
    assert made.train.images.images.shape == (40, 3, 32, 32)


@pytest.mark.usefixtures("_small")
def test_smaller_digits_lie_farther_from_the_middle():
    box = named.digit_parts(Sizes(200, 3, 3), seed=0, side=14).train.facts["box"]
    assert torch.equal(box[:, 2:] - box[:, :2], torch.full((200, 2), 14))
    assert (int(box.min()), int(box.max())) == (0, 32)
    middle = ((box[:, :2] <= 15) & (box[:, 2:] > 15)).all(1)
    assert 0.4 < float(middle.float().mean()) < 0.7  # (14 / 19)^2 is expected


@pytest.fixture
def _real(real_data, monkeypatch):
    monkeypatch.setenv("TUTELAGE_DATA", str(real_data))


@pytest.mark.usefixtures("_real")
def test_real_ones_lean_as_their_label_says():
    """The ink's covariance of row and column is positive where a stroke leans to the left."""
    part = named.rotated_parts(SEPARATE, Sizes(400, 1, 1), seed=0).train
    ink = part.images.images[:, 0].double()
    place = torch.arange(28).double() - 13.5
    total = ink.sum((1, 2))
    row, column = (ink.sum(axis) @ place / total for axis in (2, 1))
    together = torch.einsum("nij,i,j->n", ink, place, place) / total - row * column
    leaning = torch.corrcoef(torch.stack([together, part.facts["degrees"].double()]))[0, 1]
    assert leaning > 0.8

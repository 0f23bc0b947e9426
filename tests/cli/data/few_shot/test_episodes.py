"""Tasks: N classes, K + Q different images of each, the same again for the same number."""

import pytest
import torch

from papers.data.few_shot.episodes import Episodes
from tests.cli.data.made_up import images
from tutelage.errors import UsageError


def episodes(data=None, **options):
    data = images(120, classes=8, channels=3) if data is None else data
    settings = {"ways": 5, "shots": 2, "queries": 3, "seed": 0, **options}
    mean, std = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.4])
    return Episodes(data, **settings, mean=mean, std=std, device=torch.device("cpu"))


def test_a_task_has_its_ways_shots_and_queries_and_shares_no_image():
    drawn = episodes()
    for task in drawn.tasks(20):
        assert task.support.inputs.shape == (10, 3, 8, 8)
        assert task.query.inputs.shape == (15, 3, 8, 8)
        assert torch.bincount(task.support.targets).tolist() == [2] * 5
        assert torch.bincount(task.query.targets).tolist() == [3] * 5
        ids = torch.cat([task.support.ids, task.query.ids])
        assert len(ids.unique()) == 25
        classes = drawn.images.labels[ids - 100]
        targets = torch.cat([task.support.targets, task.query.targets])
        pairs = set(zip(targets.tolist(), classes.tolist(), strict=True))
        assert len(pairs) == len({real for _, real in pairs}) == 5
        assert not task.corrupted.any()


def test_inputs_are_the_normalised_images_of_the_ids():
    drawn = episodes()
    batch = drawn.task(3).query
    pixels = drawn.images.images[batch.ids - 100].float() / 255
    expected = (pixels - drawn.mean.view(3, 1, 1)) / drawn.std.view(3, 1, 1)
    assert torch.equal(batch.inputs, expected)
    assert batch.inputs.dtype == torch.float32


def test_seed_and_number_decide_the_task_alone():
    one, same = episodes().task(4), list(episodes().tasks(2, start=3))[1]
    assert torch.equal(one.support.inputs, same.support.inputs)
    assert torch.equal(one.query.ids, same.query.ids)
    assert one.support.seed == same.support.seed != one.query.seed
    for other in (episodes().task(5), episodes(seed=1).task(4)):
        assert not torch.equal(one.query.ids, other.query.ids)


def test_every_class_and_image_is_drawn_about_equally_often():
    drawn = episodes(queries=1, shots=1)
    ids = torch.cat([batch.ids for task in drawn.tasks(1500) for batch in task[:2]]) - 100
    times = torch.bincount(ids, minlength=120)
    assert (times - 125).abs().max() < 50


def test_classes_without_images_do_not_count():
    data = images(60, classes=10, channels=3)
    sparse = data.rows((data.labels >= 5).nonzero().flatten())
    task = episodes(sparse).task(0)
    assert sorted(data.labels[task.query.ids - 100].unique().tolist()) == [5, 6, 7, 8, 9]
    with pytest.raises(UsageError, match="images of 5 classes; allowed: 6 and above"):
        episodes(sparse, ways=6)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(UsageError, match=r"class '5' of toys has 5 images, but .* takes 6"):
        episodes(images(45, classes=8, channels=3), shots=3)
    with pytest.raises(UsageError, match=r"1 ways, 2 shots and 3 queries; allowed"):
        episodes(ways=1)
    with pytest.raises(UsageError, match=r"5 ways, 0 shots and 3 queries; allowed"):
        episodes(shots=0)

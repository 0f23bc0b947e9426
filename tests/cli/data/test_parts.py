"""Parts are cut at random, and one of them says nothing."""

import pytest
import torch

from papers.mueller2021gar.gar_splits import corrupted_parts
from tutelage.errors import UsageError
from tutelage_cli.data.images import ImageSet


def data(count: int = 4000) -> ImageSet:
    draws = torch.Generator().manual_seed(0)
    pixels = torch.randint(60, 120, (count, 1, 4, 4), generator=draws)
    rows = torch.arange(count)
    return ImageSet(pixels.to(torch.uint8), rows % 10, rows, tuple("abcdefghij"), "letters")


def test_labels_of_the_first_part_are_uniform_and_all_else_is_as_it_was():
    whole = data()
    before = whole.labels.clone(), whole.images.clone()
    parts = corrupted_parts(whole, 4000, 4, corrupt="labels", seed=1)
    assert parts.size == 1000
    order = torch.randperm(4000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(parts.images, whole.images[order])
    assert torch.equal(parts.labels[1000:], whole.labels[order][1000:])
    wrong = (parts.labels[:1000] != whole.labels[order][:1000]).float().mean()
    assert abs(wrong - 0.9) < 0.04
    assert (torch.bincount(parts.labels[:1000], minlength=10) > 60).all()
    assert torch.equal(whole.labels, before[0])
    assert torch.equal(whole.images, before[1])


def test_images_of_the_first_part_are_noise_like_the_data_and_keep_their_labels():
    whole = data()
    parts = corrupted_parts(whole, 4000, 4, corrupt="images", seed=1)
    order = torch.randperm(4000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(parts.labels, whole.labels[order])
    assert torch.equal(parts.images[1000:], whole.images[order][1000:])
    noise, rest = parts.images[:1000].float(), parts.images[1000:].float()
    assert abs(noise.mean() - rest.mean()) < 1
    assert abs(noise.std() - rest.std()) < 1
    assert (noise != whole.images[order][:1000]).float().mean() > 0.9


def test_the_seed_decides_and_what_does_not_divide_is_left_out():
    one, same, other = (
        corrupted_parts(data(), 1003, 10, corrupt="labels", seed=seed) for seed in (1, 1, 2)
    )
    assert len(one.labels) == 1000
    assert torch.equal(one.labels, same.labels)
    assert not torch.equal(one.labels, other.labels)


@pytest.mark.parametrize("examples", [3, 4001 + 10])
def test_too_few_examples_are_refused(examples):
    with pytest.raises(UsageError, match=r"allowed: 10\.\.4000"):
        corrupted_parts(data(), examples, 10, corrupt="labels", seed=0)

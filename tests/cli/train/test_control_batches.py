"""The rows, targets and losses that controls are trained on."""

import numpy as np
import pytest
import torch
from torch import Tensor

from tutelage.crossfit import ForwardCorrected
from tutelage.crossfit.transitions import GoldLossCorrected
from tutelage_cli.data.batches import Batches, CollateImages
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.controls.control_batches import (
    RelabelledBatches,
    RepeatedBatches,
    batches_like,
)


def images(*ids: int, names: bool = True) -> ImageSet:
    pixels = torch.tensor(ids, dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 2, 2)
    sources = tuple(f"{n}.png" for n in range(max(ids) + 1)) if names else ()
    return ImageSet(
        pixels.clone(), torch.tensor(ids) % 3, torch.tensor(ids), ("a", "b", "c"), "x", sources
    )


def batches(of: ImageSet, size: int = 3) -> Batches:
    half = torch.full((1,), 0.5)
    return Batches(of, size, 4, CollateImages(half, half), torch.device("cpu"))


def pixels(inputs: Tensor) -> list[int]:
    return ((inputs[:, 0, 0, 0] * 0.5 + 0.5) * 255).round().int().tolist()


def test_checked_images_come_after_the_others_under_ids_that_no_other_has() -> None:
    whole = images(3, 5, 4).concatenated(images(3, 9))
    assert whole.ids.tolist() == [3, 5, 4, 6, 7]
    assert whole.labels.tolist() == [0, 2, 1, 0, 0]
    assert whole.images[:, 0, 0, 0].tolist() == [3, 5, 4, 3, 9]


def test_texts_of_other_lengths_go_together() -> None:
    def texts(words: str, length: int) -> TextSet:
        tokens = torch.ones(2, 3, length, dtype=torch.int32)
        labels = torch.tensor([0, 1])
        return TextSet(((words, "b"),), tokens, labels, labels, ("x", "y"), "t", 5, ("1", "2"))

    whole = texts("one", 2).concatenated(texts("two", 4))
    assert whole.sides == (("one", "b", "two", "b"),)
    assert whole.tokens.shape == (4, 3, 4)
    assert whole.tokens[:2, :, 2:].count_nonzero() == 0
    assert len(set(whole.names())) == 4


def test_a_budget_of_steps_goes_through_the_examples_again_and_again() -> None:
    inner = batches(images(*range(7)), size=2)
    assert len(inner) == 3
    again = RepeatedBatches(inner, 5)
    seen = [batch.ids.tolist() for number in (0, 1) for batch in again.epoch(number)]
    wanted = [b.ids.tolist() for number in range(4) for b in inner.epoch(number)]
    assert seen == wanted[:10]
    assert [b.ids.tolist() for b in again.epoch(1, 2)] == wanted[7:10]
    assert len(again) == 5


@pytest.mark.parametrize("dtype", [torch.long, torch.float32])
def test_targets_stay_with_their_examples(dtype) -> None:
    of = images(*range(8))
    targets = torch.arange(8).to(dtype) if dtype == torch.long else torch.rand(8, 3)
    for batch in RelabelledBatches(batches(of), targets).epoch(0):
        assert torch.equal(batch.targets, targets[batch.ids])
        assert pixels(batch.inputs) == batch.ids.tolist()


def test_a_single_example_is_trained_on_twice() -> None:
    like = batches(images(*range(6)))
    assert batches_like(like, images(2)).count == 2
    assert batches_like(like, images(2, 3)).count == 2


def test_given_labels_are_corrected_and_checked_ones_are_not() -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(4, 3))
    transitions = generator.dirichlet(np.ones(3), size=3)
    loss = GoldLossCorrected(ForwardCorrected(torch.tensor(transitions)))
    found = loss(torch.tensor(logits), torch.tensor([2, 0, 3 + 1, 3 + 2]))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    mixed = p @ transitions
    wanted = -np.log([mixed[0, 2], mixed[1, 0], p[2, 1], p[3, 2]])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)

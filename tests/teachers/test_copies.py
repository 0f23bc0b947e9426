"""Copies of examples: where rows lie, when they are drawn, and which labels they have."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.augment import crop_and_flip
from tutelage.signals import Lookahead
from tutelage.teachers import CombinedTeacher, Copies, LossWeigher, StoredCopies, WorstCase
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

B = 4


def batch_of(seed: int = 0, first: int = 10) -> Batch:
    draws = torch.Generator().manual_seed(0)
    images = torch.rand(B, 1, 8, 8, generator=draws)
    return Batch(images, torch.arange(B) % 3, torch.arange(B) + first, seed)


@pytest.mark.parametrize("include_original", [True, False])
def test_rows_come_copy_by_copy_each_augmented_on_its_own(include_original) -> None:
    batch = batch_of()
    prepared = Copies(5, crop_and_flip, include_original=include_original).prepare(batch)
    assert prepared.inputs.shape == (5 * B, 1, 8, 8)
    rows = prepared.inputs.view(5, B, 1, 8, 8)
    assert torch.equal(rows[0], batch.inputs) == include_original
    assert len({row.numpy().tobytes() for row in rows[:, 0]}) > 2
    assert torch.equal(prepared.group, torch.arange(B).repeat(5))
    assert torch.equal(prepared.ids, batch.ids[prepared.group])
    assert torch.equal(prepared.targets, batch.targets[prepared.group])


def test_copies_are_drawn_anew_at_every_step_and_again_for_the_same_one() -> None:
    teacher = Copies(3, crop_and_flip, include_original=True)
    one, again, other = (teacher.prepare(batch_of(seed)).inputs for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_copies_that_stay_depend_on_the_example_alone() -> None:
    def make(seed: int = 0) -> Copies:
        return Copies(3, crop_and_flip, include_original=True, offline=True, seed=seed)

    teacher, batch = make(), batch_of(1)
    one = teacher.prepare(batch).inputs
    assert torch.equal(teacher.prepare(batch_of(2)).inputs, one)
    backward = Batch(*(column.flip(0) for column in batch[:3]), seed=5)
    again = make().prepare(backward).inputs.view(3, B, 1, 8, 8)
    assert torch.equal(again.flip(1).flatten(0, 1), one)
    assert not torch.equal(make(seed=1).prepare(batch).inputs, one)


def test_a_single_row_of_an_example_is_the_original_or_one_copy() -> None:
    batch = batch_of()
    same = Copies(1, crop_and_flip, include_original=True).prepare(batch)
    assert torch.equal(same.inputs, batch.inputs)
    assert len(Copies(1, crop_and_flip, include_original=False).prepare(batch).ids) == B
    with pytest.raises(ValueError, match="at least 1"):
        Copies(0, crop_and_flip, include_original=True)


def stored(targets: Tensor | None = None) -> StoredCopies:
    copies = torch.arange(B * 2 * 3).view(B, 2, 3)
    return StoredCopies(copies, torch.tensor([13, 12, 11, 10]), targets)


def test_stored_copies_are_found_by_id_with_labels_of_their_own() -> None:
    labels = torch.rand(B, 2, 3).softmax(2)
    batch = batch_of()._replace(inputs=torch.zeros(B, 3))
    prepared = stored(labels).prepare(batch)
    assert prepared.inputs[B].tolist() == [18, 19, 20]
    assert torch.equal(prepared.targets[0], torch.tensor([1.0, 0, 0]))
    assert torch.equal(prepared.targets[B], labels[3, 0])
    assert torch.equal(prepared.targets[2 * B + 3], labels[0, 1])
    assert torch.equal(stored().prepare(batch).targets, batch.targets.repeat(3))


def test_numbers_as_labels_of_stored_copies_stay_numbers() -> None:
    batch = batch_of()._replace(inputs=torch.zeros(B, 3), targets=torch.rand(B))
    labels = torch.rand(B, 2)
    found = stored(labels).prepare(batch).targets
    assert torch.equal(found, torch.cat([batch.targets, labels.flip(0).T.flatten()]))


def test_examples_without_stored_copies_and_odd_shapes_are_refused() -> None:
    batch = batch_of(first=11)._replace(inputs=torch.zeros(B, 3))
    with pytest.raises(ValueError, match="id 14"):
        stored().prepare(batch)
    with pytest.raises(ValueError, match="as they are shown"):
        stored().prepare(batch_of())
    with pytest.raises(ValueError, match="more than once"):
        StoredCopies(torch.zeros(2, 1, 3), torch.zeros(2).long())
    with pytest.raises(ValueError, match="ids: give"):
        stored(torch.zeros(B, 1))


def student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))


def test_a_tutor_shows_what_it_saw_of_every_copy() -> None:
    net = student()
    teacher = CombinedTeacher(Copies(3, crop_and_flip, include_original=True), WorstCase(1.0))
    record = Tutor(net, SGD(net.parameters(), 0.1), teacher).step(batch_of())
    assert record.losses.shape == record.weights.shape == (3 * B,)
    assert torch.allclose(record.weights.view(3, B).sum(0), torch.ones(B))


def test_weights_of_copies_can_be_learned_too() -> None:
    net, weigher = student(), LossWeigher(width=4)
    teacher = CombinedTeacher(Copies(3, crop_and_flip, include_original=True), weigher)
    before = [p.clone() for p in weigher.parameters()]
    learner = SGD(weigher.parameters(), 1.0)
    tutor = Tutor(net, SGD(net.parameters(), 0.1), teacher, learner, signal=Lookahead())
    tutor.step(batch_of(), batch_of(first=50))
    moved = [not torch.equal(a, b) for a, b in zip(before, weigher.parameters(), strict=True)]
    assert any(moved)

"""Blending mixes inputs and labels alike, by class pair, and learns through both."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases import InputWeigher
from tests.teachers.finite import assert_exact, direct_term, train
from tutelage.functional.replay_context import replay_context
from tutelage.losses.objectives import cross_entropy
from tutelage.signals import Lookahead, Unrolled
from tutelage.teacher import acts_at_test
from tutelage.teachers import (
    Blending,
    CombinedTeacher,
    LossWeigher,
    Mixup,
    RandomBlending,
    Shuffled,
)
from tutelage.teachers.hook_calls import prepare
from tutelage.types import Batch, PreparedBatch

D, C = 8, 3


def grid(seed: int = 2) -> Blending:
    teacher = Blending(C).double()
    nn.init.normal_(teacher.phi, generator=torch.Generator().manual_seed(seed))
    return teacher


TEACHERS: dict[str, Callable[[], nn.Module]] = {
    "learned": grid,
    "random": lambda: RandomBlending(C, seed=3).double(),
    "mixup": lambda: Mixup(C, alpha=0.4),
    "shuffled": lambda: Shuffled(grid(), seed=3),
}


def batch(seed: int, size: int = 7, dtype: torch.dtype = torch.float64) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, D, generator=generator, dtype=dtype)
    y = torch.randint(0, C, (size,), generator=generator)
    return Batch(x, y, torch.arange(size) + 7, seed)


def soft(seed: int, size: int = 7) -> Batch:
    one = batch(seed, size)
    y = torch.rand(size, C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return one._replace(targets=y / y.sum(1, keepdim=True))


def prepared_of(teacher: nn.Module, seen: Batch) -> PreparedBatch:
    with replay_context(seen, seen.seed):
        return prepare(teacher, {}, seen)


def partner_of(seen: Batch) -> Tensor:
    with replay_context(seen, seen.seed):
        return torch.randperm(len(seen.ids))


def student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 6), nn.Tanh(), nn.Linear(6, C)).double()


def test_each_row_is_worked_out_by_hand_from_the_grid() -> None:
    seen, teacher = batch(1), grid()
    prepared, pi = prepared_of(teacher, seen), partner_of(seen)
    for b in range(len(seen.ids)):
        own, other = int(seen.targets[b]), int(seen.targets[pi[b]])
        lam = 1 - 0.5 * teacher.phi[own, other].sigmoid()
        torch.testing.assert_close(
            prepared.inputs[b], lam * seen.inputs[b] + (1 - lam) * seen.inputs[pi[b]]
        )
        label = lam * F.one_hot(torch.tensor(own), C) + (1 - lam) * F.one_hot(
            torch.tensor(other), C
        )
        torch.testing.assert_close(prepared.targets[b], label)
    assert torch.equal(prepared.ids, seen.ids)
    assert prepared.group.tolist() == list(range(7))


def test_cross_entropy_takes_the_labels_as_the_paper_writes_its_loss() -> None:
    seen, teacher = batch(1), grid()
    prepared, pi = prepared_of(teacher, seen), partner_of(seen)
    logits = student()(prepared.inputs)
    lam = teacher.shares[seen.targets, seen.targets[pi]]
    first, second = (cross_entropy(logits, y) for y in (seen.targets, seen.targets[pi]))
    want = lam * first + (1 - lam) * second
    torch.testing.assert_close(cross_entropy(logits, prepared.targets), want)


@pytest.mark.parametrize(("start", "share"), [(0.0, 0.75), (-1.0, 0.8655)])
def test_it_starts_where_the_paper_or_its_code_does(start, share) -> None:
    shares = Blending(C, start=start).shares
    torch.testing.assert_close(shares, torch.full((C, C), share), rtol=0, atol=1e-4)
    assert torch.equal(Blending(C).shares, torch.full((C, C), 0.75))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("make", [batch, soft], ids=["classes", "soft labels"])
@pytest.mark.parametrize("name", TEACHERS)
def test_odd_batches_and_one_alone_give_labels_that_sum_to_one(name, make, size) -> None:
    seen = make(4, size)
    prepared = prepared_of(TEACHERS[name](), seen)
    assert prepared.inputs.shape == (size, D)
    assert prepared.targets.shape == (size, C)
    assert (prepared.targets >= 0).all()
    ones = torch.ones(size, dtype=torch.float64)
    torch.testing.assert_close(prepared.targets.sum(1), ones, rtol=0, atol=1e-12)
    assert prepared.inputs.dtype == prepared.targets.dtype == torch.float64


def test_one_alone_is_left_as_it_is() -> None:
    seen = batch(4, 1)
    for build in TEACHERS.values():
        torch.testing.assert_close(prepared_of(build(), seen).inputs, seen.inputs)


def test_soft_labels_that_are_sure_blend_as_classes_do() -> None:
    seen, teacher = batch(1), grid()
    sure = seen._replace(targets=F.one_hot(seen.targets, C).double())
    wanted, got = prepared_of(teacher, seen), prepared_of(teacher, sure)
    assert torch.equal(got.inputs, wanted.inputs)
    assert torch.equal(got.targets, wanted.targets)


def test_soft_labels_blend_by_the_expected_share_of_the_pair() -> None:
    seen, teacher = soft(1), grid()
    prepared, pi = prepared_of(teacher, seen), partner_of(seen)
    y, z = seen.targets[0], seen.targets[pi[0]]
    lam = sum(
        y[i] * z[j] * (1 - 0.5 * teacher.phi[i, j].sigmoid())
        for i in range(C)
        for j in range(C)
    )
    torch.testing.assert_close(prepared.targets[0], lam * y + (1 - lam) * z)


@pytest.mark.parametrize("name", TEACHERS)
def test_the_same_seed_blends_the_same_and_another_one_otherwise(name) -> None:
    teacher, seen = TEACHERS[name](), batch(1)
    again = prepared_of(teacher, seen)
    assert torch.equal(prepared_of(teacher, seen).inputs, again.inputs)
    assert not torch.equal(prepared_of(teacher, seen._replace(seed=99)).inputs, again.inputs)


def test_the_random_baseline_draws_the_share_itself_once_by_its_seed() -> None:
    shares = RandomBlending(40, seed=1).shares
    assert ((shares >= 0.5) & (shares <= 1)).all()
    assert shares.mean().item() == pytest.approx(0.75, abs=0.01)
    assert shares.std().item() == pytest.approx(0.5 / 12**0.5, abs=0.01)
    assert torch.equal(shares, RandomBlending(40, seed=1).shares)
    assert not torch.equal(shares, RandomBlending(40, seed=2).shares)


def test_the_shuffled_grid_has_the_same_entries_at_other_places() -> None:
    learned = grid().shares.detach()
    shuffled = Shuffled(grid(), seed=3).shares
    assert not torch.equal(shuffled, learned)
    assert torch.equal(shuffled.flatten().sort().values, learned.flatten().sort().values)


def test_mixup_draws_one_share_for_the_batch_from_the_beta_distribution() -> None:
    drawn = []
    for seed in range(400):
        seen = batch(seed, 4)._replace(inputs=torch.tensor([[0.0], [1], [2], [4]]).double())
        prepared, pi = prepared_of(Mixup(C, alpha=2.0), seen), partner_of(seen)
        moved = (seen.inputs != seen.inputs[pi]).flatten()
        shares = (prepared.inputs - seen.inputs[pi])[moved] / (seen.inputs - seen.inputs[pi])[
            moved
        ]
        if len(shares):
            torch.testing.assert_close(shares, shares[:1].expand_as(shares))
            drawn.append(shares[0])
    drawn = torch.stack(drawn)
    # Beta(2, 2): mean 1/2, variance 1/20
    assert drawn.mean().item() == pytest.approx(0.5, abs=0.04)
    assert drawn.var().item() == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_mixup_without_a_positive_concentration_is_refused(alpha) -> None:
    with pytest.raises(ValueError, match="alpha must be above 0"):
        Mixup(C, alpha=alpha)


@pytest.mark.parametrize("make", [batch, soft], ids=["classes", "soft labels"])
def test_the_hypergradient_is_the_slope_of_real_training(make) -> None:
    estimate = assert_exact(student, grid(), [make(1), make(2)], batch(9))
    assert estimate.grad["phi"].isfinite().all()
    assert estimate.grad["phi"].any()


def test_the_gradient_goes_through_image_and_label() -> None:
    teacher, seen = grid(), batch(1)
    prepared = prepared_of(teacher, seen)
    for part in (prepared.inputs, prepared.targets):
        (grad,) = torch.autograd.grad(part.square().sum(), teacher.phi, retain_graph=True)
        assert grad.isfinite().all()
        assert grad.any()


def test_a_batch_of_one_gives_a_finite_hypergradient() -> None:
    estimate, _ = train(student, grid(), [batch(1, 1)], batch(9), Unrolled(1))
    assert estimate is not None
    assert estimate.grad["phi"].isfinite().all()


def test_looking_ahead_equals_one_unrolled_step_and_nothing_acts_at_test() -> None:
    batches = [batch(1)]
    wanted, _ = train(student, grid(), batches, batch(9), Unrolled(1))
    got, _ = train(student, grid(), batches, batch(9), Lookahead())
    assert wanted is not None
    assert got is not None
    torch.testing.assert_close(got.grad["phi"], wanted.grad["phi"])
    assert not any(acts_at_test(build()) for build in TEACHERS.values())
    assert not direct_term(student, grid(), batch(1), batch(9))["phi"].any()


def test_a_weigher_beside_it_weighs_the_blended_rows() -> None:
    both = CombinedTeacher(grid(), InputWeigher().double())
    estimate = assert_exact(student, both, [batch(1), batch(2)], batch(9))
    assert all(grad.any() for grad in estimate.grad.values())
    both = CombinedTeacher(grid(), LossWeigher(width=4).double())
    learned, _ = train(student, both, [batch(1), batch(2)], batch(9), Unrolled(2))
    assert learned is not None
    assert all(grad.isfinite().all() for grad in learned.grad.values())
    assert learned.grad["prepares.phi"].any()

"""Masks are Gaussians of peak 1 at the expected pixel; they act at test, too."""

import math

import pytest
import torch
from torch import Tensor, nn

from tests.teachers.finite import assert_exact, direct_term, train
from tutelage.errors import UsageError
from tutelage.functional.replay_context import replay_context
from tutelage.models import MaskUNet
from tutelage.signals import Implicit, Lookahead, Unrolled
from tutelage.signals.solvers import Neumann
from tutelage.teacher import acts_at_test
from tutelage.teachers import (
    AttentionMask,
    CombinedTeacher,
    LossWeigher,
    PermutationControl,
    Plain,
    RandomMask,
)
from tutelage.teachers.attention_mask import expected_place, gaussian
from tutelage.teachers.hook_calls import prepare, weigh
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared

H, W, C = 5, 6, 3


class Given(nn.Module):
    """Logits that were given, whatever the images."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, images: Tensor) -> Tensor:
        return self.logits.expand(len(images), *self.logits.shape[1:])


def student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(3 * (H - 1) * (W - 1), C)
    ).double()


def attention() -> AttentionMask:
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Conv2d(3, 1, 3, padding=1, bias=False)
    )
    for p in network.parameters():
        nn.init.normal_(p)
    return AttentionMask(network, sigma=1.5).double()


def batch(seed: int, size: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(size, 1, H, W, generator=generator, dtype=torch.float64)
    y = torch.randint(0, C, (size,), generator=generator)
    return Batch(x, y, torch.arange(size) + 7, seed)


def prepared_of(teacher: nn.Module, seen: Batch) -> PreparedBatch:
    with replay_context(seen, seen.seed):
        return prepare(teacher, {}, seen)


def test_equal_logits_look_at_the_middle_of_the_image() -> None:
    centre, seen = expected_place(torch.zeros(2, 32, 20))
    torch.testing.assert_close(centre, torch.tensor([[15.5, 9.5]] * 2))
    assert seen.all()


def test_a_single_high_logit_is_where_the_mask_has_its_peak_of_one() -> None:
    logits = torch.zeros(1, 1, H, W)
    logits[0, 0, 3, 1] = 100
    teacher, images = AttentionMask(Given(logits), sigma=2.0), torch.rand(2, 3, H, W)
    torch.testing.assert_close(teacher.centres(images), torch.tensor([[3.0, 1.0]] * 2))
    mask = teacher.mask(images)
    assert mask.shape == (2, 1, H, W)
    for i in range(H):
        for j in range(W):
            want = math.exp(-((i - 3) ** 2 + (j - 1) ** 2) / 8)
            torch.testing.assert_close(mask[1, 0, i, j].item(), want, rtol=1e-5, atol=1e-6)


def test_the_background_is_added_and_all_channels_are_masked_alike() -> None:
    images = torch.rand(2, 3, H, W)
    prepared = AttentionMask(
        Given(torch.zeros(1, 1, H, W)), sigma=15.0, background=0.2
    ).prepare(Batch(images, torch.zeros(2).long(), torch.arange(2)))
    spot = gaussian(torch.tensor([[2.0, 2.5]] * 2), H, W, 15.0)
    torch.testing.assert_close(prepared.inputs, images * (spot + 0.2))


def test_the_papers_mask_on_small_images_is_very_wide() -> None:
    spot = gaussian(torch.tensor([[15.5, 15.5]]), 32, 32, 15.0)
    assert spot.min().item() == pytest.approx(0.34, abs=0.01)
    assert spot.mean().item() == pytest.approx(0.70, abs=0.01)


def test_an_image_whose_pixels_are_all_ruled_out_is_dark_and_harms_no_other() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 1, H, W, generator=generator, dtype=torch.float64)
    images = torch.rand(2, 1, H, W, generator=generator, dtype=torch.float64)
    alone = logits[:1].clone().requires_grad_()
    wanted = AttentionMask(Fixed(alone), sigma=1.5).mask(images[:1])
    (want,) = torch.autograd.grad((wanted * images[:1]).sum(), alone)
    ruled = logits.clone()
    ruled[1] = -torch.inf
    ruled.requires_grad_()
    mask = AttentionMask(Fixed(ruled), sigma=1.5).mask(images)
    (got,) = torch.autograd.grad((mask * images).sum(), ruled)
    assert not mask[1].any()
    torch.testing.assert_close(mask[:1], wanted)
    torch.testing.assert_close(got[:1], want)
    assert torch.equal(got[1], torch.zeros_like(got[1]))


class Fixed(nn.Module):
    """Logits for each image, as they were given."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, _images: Tensor) -> Tensor:
        return self.logits


def test_a_spot_so_small_that_it_is_dark_everywhere_gives_a_finite_gradient() -> None:
    teacher = AttentionMask(Given(torch.zeros(1, 1, H, W)), sigma=0.01)
    mask = teacher.mask(torch.rand(2, 1, H, W))
    assert not mask.any()
    mask.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in teacher.parameters())


def test_a_network_of_another_size_is_refused_with_both_shapes() -> None:
    teacher = AttentionMask(nn.Conv2d(1, 1, 3), sigma=1.0)
    with pytest.raises(UsageError, match=r"\(2, 1, 3, 4\) for images of \(2, 1, 5, 6\)"):
        teacher.mask(torch.rand(2, 1, H, W))


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan")])
def test_a_spot_without_width_is_refused(sigma) -> None:
    with pytest.raises(ValueError, match="sigma must be above 0"):
        AttentionMask(Given(torch.zeros(1, 1, H, W)), sigma=sigma)
    with pytest.raises(ValueError, match="sigma must be above 0"):
        RandomMask(sigma=sigma)


@pytest.mark.parametrize("size", [1, 5])
def test_the_hypergradient_is_the_slope_of_real_training(size) -> None:
    estimate = assert_exact(student, attention(), [batch(1, size), batch(2, size)], batch(9))
    assert all(grad.isfinite().all() and grad.any() for grad in estimate.grad.values())


def test_that_of_a_mask_u_net_too() -> None:
    torch.manual_seed(1)
    teacher = AttentionMask(MaskUNet(1, width=2, levels=1), sigma=1.5).double()
    estimate = assert_exact(student, teacher, [batch(1), batch(2)], batch(9))
    for name, grad in estimate.grad.items():
        assert grad.isfinite().all(), name
        assert grad.any(), name


def slope_at(teacher: nn.Module, seen: Batch, held_out: Batch) -> dict[str, Tensor]:
    """Gradient of the held-out loss in the mask alone, after the step."""
    module = student()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.3, momentum=0.5)
    nn.functional.cross_entropy(
        module(prepared_of(teacher, seen).inputs), seen.targets
    ).backward()
    optimizer.step()
    loss = nn.functional.cross_entropy(
        module(prepared_of(teacher, held_out).inputs), held_out.targets
    )
    own = dict(teacher.named_parameters())
    return dict(zip(own, torch.autograd.grad(loss, list(own.values())), strict=True))


def test_masks_have_a_direct_term_in_the_implicit_gradient() -> None:
    got = direct_term(student, attention(), batch(1), batch(9))
    for name, want in slope_at(attention(), batch(1), batch(9)).items():
        assert want.any()
        torch.testing.assert_close(got[name], want)
    whole, _ = train(student, attention(), [batch(1)], batch(9), Implicit(Neumann(1, 0.3)))
    assert whole is not None
    assert all(not torch.equal(whole.grad[name], got[name]) for name in got)


def test_looking_one_step_ahead_has_it_as_unrolling_does() -> None:
    wanted, _ = train(student, attention(), [batch(1)], batch(9), Unrolled(1))
    got, _ = train(student, attention(), [batch(1)], batch(9), Lookahead())
    assert wanted is not None
    assert got is not None
    for name, grad in wanted.grad.items():
        torch.testing.assert_close(got.grad[name], grad)


def test_random_masks_are_drawn_for_each_image_of_each_batch_over_the_whole_image() -> None:
    ones = Batch(torch.ones(2000, 1, 9, 9), torch.zeros(2000).long(), torch.arange(2000), 1)
    teacher = RandomMask(sigma=0.5)
    assert acts_at_test(teacher)
    assert acts_at_test(CombinedTeacher(teacher, LossWeigher()))
    masks = prepared_of(teacher, ones).inputs
    assert torch.equal(masks, prepared_of(teacher, ones).inputs)
    assert not torch.equal(masks, prepared_of(teacher, ones._replace(seed=2)).inputs)
    peaks = masks.flatten(1).argmax(1)
    assert peaks.bincount(minlength=81).min() > 5  # of about 25
    assert (masks.amax((1, 2, 3)) > 0).all()
    assert masks.max() <= 1
    dim = prepared_of(RandomMask(sigma=0.5, background=0.3), ones).inputs
    torch.testing.assert_close(dim, masks + 0.3)


def test_permuted_masks_are_the_same_masks_on_other_images() -> None:
    seen = batch(1, 7)
    teacher = attention()
    right, wrong = (
        teacher.mask(seen.inputs),
        prepared_of(PermutationControl(teacher), seen).inputs,
    )
    masks = wrong / seen.inputs
    assert not torch.equal(masks, right)
    together = torch.cdist(masks.flatten(1), right.flatten(1)) < 1e-9
    assert together.sum(0).tolist() == together.sum(1).tolist() == [1] * 7
    assert acts_at_test(PermutationControl(teacher))
    assert torch.equal(
        weights_of(PermutationControl(teacher), seen), torch.ones(7, dtype=torch.float64)
    )


def weights_of(teacher: nn.Module, seen: Batch) -> Tensor:
    losses = torch.arange(1.0, len(seen.ids) + 1, dtype=torch.float64)
    with replay_context(seen, seen.seed):
        observed = Observation(losses, losses.unsqueeze(1), {}, Progress())
        return weigh(teacher, {}, as_prepared(seen), observed).detach()


def test_permuted_weights_are_the_same_weights_on_other_examples() -> None:
    torch.manual_seed(0)
    teacher, seen = LossWeigher(width=4).double(), batch(1, 7)
    right, wrong = weights_of(teacher, seen), weights_of(PermutationControl(teacher), seen)
    assert not torch.equal(wrong, right)
    assert torch.equal(wrong.sort().values, right.sort().values)
    assert prepared_of(PermutationControl(teacher), seen).inputs is seen.inputs
    assert not acts_at_test(PermutationControl(teacher))


def test_what_has_neither_masks_nor_weights_cannot_be_permuted() -> None:
    with pytest.raises(TypeError, match="Plain has no method 'mask' or 'weigh'"):
        PermutationControl(Plain())


def two_patches(seed: int, size: int) -> tuple[Batch, Tensor]:
    """A pattern in each of two quadrants: that in the first channel is the class.

    Returns the batch, and where the middle of the first channel's pattern is.
    """
    patterns = (torch.rand(C, 5, 5, generator=torch.Generator().manual_seed(0)) > 0.5).double()
    generator = torch.Generator().manual_seed(seed)
    images = torch.zeros(size, 2, 10, 10, dtype=torch.float64)
    shown = torch.randint(0, C, (size, 2), generator=generator)
    places = torch.stack([torch.randperm(4, generator=generator)[:2] for _ in range(size)])
    for image, kinds, quadrants in zip(images, shown, places, strict=True):
        for channel in (0, 1):
            row, column = divmod(int(quadrants[channel]), 2)
            spot = (slice(5 * row, 5 * row + 5), slice(5 * column, 5 * column + 5))
            image[channel][spot] = patterns[kinds[channel]]
    middle = 5 * torch.stack([places[:, 0] // 2, places[:, 0] % 2], 1) + 2
    return Batch(images, shown[:, 0], torch.arange(size)), middle


def test_masks_learn_which_of_two_spots_decides_the_class() -> None:
    torch.manual_seed(0)
    reader = nn.Sequential(
        nn.Conv2d(2, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, C)
    ).double()
    teacher = AttentionMask(MaskUNet(2, width=4, levels=1), sigma=2.5).double()
    test, middle = two_patches(99, 200)

    def near() -> float:
        with torch.no_grad():
            centre = teacher.centres(test.inputs)
        return float(((centre - middle).abs() < 2.5).all(1).double().mean())

    before = near()
    tutor = Tutor(
        reader,
        torch.optim.Adam(reader.parameters(), lr=0.01),
        teacher,
        torch.optim.Adam(teacher.parameters(), lr=0.01),
        signal=Implicit(Neumann(1, 0.01)),
    )
    for step in range(60):
        tutor.step(two_patches(step, 32)[0], two_patches(1000 + step, 32)[0])
    assert before < 0.3
    assert near() > 0.8

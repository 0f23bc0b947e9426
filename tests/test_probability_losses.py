"""Losses of the label's probability, against numbers worked out by hand and their limits."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.optim import SGD

from tests.cases import C, build, stream
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.losses.probability import Focal, GeneralisedCrossEntropy
from tutelage.teachers import Plain
from tutelage.training.tutor import Tutor

LOSSES: list[Objective] = [
    *(Focal(gamma) for gamma in (0.0, 0.5, 1.0, 2.0)),
    *(GeneralisedCrossEntropy(q) for q in (0.3, 0.7, 1.0)),
]


def logits() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(7, C, generator=generator, dtype=torch.float64)


LABELS = torch.tensor([0, 1, 2, 1, 0, 2, 2])


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_focal_is_cross_entropy_times_a_power_of_the_missing_probability(gamma) -> None:
    p = logits().softmax(1)[torch.arange(7), LABELS]
    got = Focal(gamma)(logits(), LABELS)
    torch.testing.assert_close(got, -((1 - p) ** gamma) * p.log(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_generalised_cross_entropy_is_its_formula_and_bounded(q) -> None:
    p = logits().softmax(1)[torch.arange(7), LABELS]
    got = GeneralisedCrossEntropy(q)(logits(), LABELS)
    torch.testing.assert_close(got, (1 - p**q) / q, rtol=1e-12, atol=0)
    far = torch.tensor([[0.0, 1e4, 0.0]], dtype=torch.float64)
    assert GeneralisedCrossEntropy(q)(far, torch.tensor([0])).item() == pytest.approx(1 / q)


def test_both_begin_at_cross_entropy() -> None:
    want = cross_entropy(logits(), LABELS)
    torch.testing.assert_close(Focal(0.0)(logits(), LABELS), want)
    got = GeneralisedCrossEntropy(1e-6)(logits(), LABELS)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=0)  # differs by q log(p)^2 / 2


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_soft_labels_mix_the_losses_of_the_classes(loss) -> None:
    hard = one_hot(LABELS, C).double()
    torch.testing.assert_close(loss(logits(), hard), loss(logits(), LABELS))
    soft = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).expand(7, 3)
    by_class = torch.stack([loss(logits(), torch.full((7,), c)) for c in range(C)], 1)
    torch.testing.assert_close(loss(logits(), soft), (soft * by_class).sum(1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_student_that_is_sure_gets_finite_derivatives_twice_over(loss, dtype) -> None:
    for gap in (1e3, -1e3, 17.0, -17.0):
        z = torch.tensor([[gap, 0.0, 0.0]], dtype=dtype, requires_grad=True)
        (g,) = torch.autograd.grad(loss(z, torch.tensor([0])).sum(), z, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), z)
        assert g.isfinite().all()
        assert h.isfinite().all()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_slope_is_that_of_finite_differences(loss) -> None:
    def total(z: Tensor) -> Tensor:
        return loss(z, LABELS)

    assert torch.autograd.gradcheck(total, (logits().requires_grad_(),))


def test_half_precision_logits_give_full_precision_losses() -> None:
    for loss in LOSSES:
        got = loss(logits().bfloat16(), LABELS)
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, loss(logits().bfloat16().float(), LABELS))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_student_descends_it_as_by_torch(loss) -> None:
    student, other = build("relu network"), build("relu network")
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), Plain(), objective=loss)
    rule, batches, again = SGD(other.parameters(), lr=0.1), stream(), stream()
    for _ in range(3):
        tutor.step(next(batches))
        batch = next(again)
        rule.zero_grad()
        loss(other(batch.inputs), batch.targets).mean().backward()
        rule.step()
    for ours, theirs in zip(student.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gamma", [-0.1, float("nan"), float("inf")])
def test_a_focal_loss_that_means_nothing_is_refused(gamma) -> None:
    with pytest.raises(ValueError, match="0 or above"):
        Focal(gamma)


@pytest.mark.parametrize("q", [0.0, -1.0, 1.1, float("nan")])
def test_a_generalised_cross_entropy_that_means_nothing_is_refused(q) -> None:
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        GeneralisedCrossEntropy(q)

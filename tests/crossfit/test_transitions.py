"""Estimated transitions, and the loss that allows for them, against plain arithmetic."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tutelage.crossfit import ForwardCorrected, estimate_transitions
from tutelage.errors import UnknownLabelError, UsageError
from tutelage.losses.objectives import cross_entropy, losses_of
from tutelage.types import Batch


def tensor(values) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


P = tensor([[0.8, 0.2, 0.0], [0.6, 0.3, 0.1], [0.1, 0.7, 0.2]])
LABELS = torch.tensor([0, 0, 1])


def test_without_a_prior_it_is_the_mean_of_each_class():
    p = torch.cat([P, tensor([[0.0, 0.0, 1.0]])])
    found = estimate_transitions(p, torch.tensor([0, 0, 1, 2]), prior_count=0.0)
    torch.testing.assert_close(found, tensor([[0.7, 0.25, 0.05], [0.1, 0.7, 0.2], [0, 0, 1]]))


def test_the_prior_counts_as_many_examples_and_stands_alone_where_there_is_none():
    found = estimate_transitions(P, LABELS, prior_count=2.0)
    kept, means = 2.1 / 3, tensor([0.5, 0.4, 0.1])
    priors = []
    for c in range(3):
        leaving = means.clone()
        leaving[c] = 0
        row = (1 - kept) * leaving / leaving.sum()
        row[c] = kept
        priors.append(row)
    want = torch.stack([
        (P[0] + P[1] + 2 * priors[0]) / 4,
        (P[2] + 2 * priors[1]) / 3,
        priors[2],
    ])
    torch.testing.assert_close(found, want, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(found.sum(1), torch.ones(3, dtype=torch.float64))


def test_shrinkage_is_the_share_of_the_identity() -> None:
    plain = estimate_transitions(P, LABELS)
    for share in (0.0, 0.3, 1.0):
        found = estimate_transitions(P, LABELS, shrinkage=share)
        want = (1 - share) * plain + share * torch.eye(3, dtype=torch.float64)
        torch.testing.assert_close(found, want)
    for share in (-0.1, 1.1):
        with pytest.raises(UsageError, match=r"allowed: 0\.\.1"):
            estimate_transitions(P, LABELS, shrinkage=share)


def test_known_given_labels_are_counted_beside_the_probabilities():
    counts = tensor([[0, 2, 0], [0, 0, 0], [0, 0, 4]])
    found = estimate_transitions(P, LABELS, given_counts=counts, prior_count=0.0)
    torch.testing.assert_close(found[0], tensor([0.35, 0.625, 0.025]))
    torch.testing.assert_close(found[2], tensor([0, 0, 1.0]))


def test_many_checked_examples_show_the_transitions_that_made_the_labels():
    generator = torch.Generator().manual_seed(0)
    wanted = tensor([[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.2, 0.0, 0.8]])
    labels = torch.randint(0, 3, (6000,), generator=generator)
    found = estimate_transitions(wanted[labels], labels)
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-3)


@pytest.mark.parametrize("prior", [0.5, 1.0])
@pytest.mark.parametrize("classes", [1, 2, 5])
def test_one_checked_example_gives_valid_rows(classes, prior):
    p = torch.eye(classes)[:1]
    found = estimate_transitions(p, torch.tensor([0]), prior_count=prior)
    assert bool((found >= 0).all())
    torch.testing.assert_close(found.sum(1), torch.ones(classes))


REFUSED = {
    "none checked": (P[:0], LABELS[:0], {}, "There is no checked example"),
    "no evidence": (P, LABELS, {"prior_count": 0.0}, "class 2 has no checked example"),
    "a negative prior": (P, LABELS, {"prior_count": -1.0}, "prior_count is -1; allowed: 0"),
    "a label beyond": (P, torch.tensor([0, 3, 0]), {}, r"row 1 of checked_labels is 3"),
    "counts of others": (P, LABELS, {"given_counts": torch.eye(2)}, r"of shape \(3, 3\)"),
    "negative counts": (P, LABELS, {"given_counts": -torch.eye(3)}, "numbers of 0 and above"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_shows_no_transitions_is_refused(name):
    p, labels, options, message = REFUSED[name]
    with pytest.raises(UsageError, match=message):
        estimate_transitions(p, labels, **options)


C = tensor([[0.9, 0.1, 0.0], [0.0, 0.6, 0.4], [0.3, 0.0, 0.7]])


def test_the_loss_is_the_logarithm_of_the_corrected_probability():
    torch.manual_seed(0)
    logits = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    given = torch.tensor([0, 1, 2, 0, 1, 2])
    found = ForwardCorrected(C)(logits, given)
    want = -(logits.softmax(1) @ C)[range(6), given].log()
    torch.testing.assert_close(found, want, rtol=1e-7, atol=1e-7)  # zeros count as 1e-8
    assert torch.autograd.gradcheck(lambda z: ForwardCorrected(C)(z, given), logits)
    assert torch.autograd.gradgradcheck(lambda z: ForwardCorrected(C)(z, given), logits)


class Largest(TorchDispatchMode):
    """Keeps the size of the largest tensor that comes of an operation."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if isinstance(found, Tensor) and not func.is_view:
            self.numel = max(self.numel, found.numel())
        return found


def test_no_step_computes_with_the_transitions_of_labels_that_it_has_not():
    classes, given = 50, torch.tensor([3, 40, 3])
    transitions = torch.rand(classes, classes).softmax(1)
    logits = torch.randn(3, classes, requires_grad=True)
    objective = ForwardCorrected(transitions)
    with Largest() as largest:
        found = objective(logits, given)
        (slope,) = torch.autograd.grad(found.sum(), logits)
    assert largest.numel == 3 * classes
    want = -(logits.softmax(1) @ transitions)[range(3), given].log()
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(slope, torch.autograd.grad(want.sum(), logits)[0])


def test_with_right_labels_alone_it_is_cross_entropy():
    torch.manual_seed(0)
    logits, given = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    found = ForwardCorrected(torch.eye(3))(logits, given)
    torch.testing.assert_close(found, cross_entropy(logits, given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_logits_far_apart_give_finite_losses_and_gradients(dtype):
    logits = tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]]).to(dtype).requires_grad_()
    losses = ForwardCorrected(C)(logits, torch.tensor([2, 0]))
    assert losses.dtype == torch.float32
    assert losses.tolist() == pytest.approx([18.42, 18.42], abs=0.01)  # -log 1e-8
    losses.sum().backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


def test_ignored_labels_count_in_no_mean():
    objective = ForwardCorrected(C, ignored=(-1,))
    batch = Batch(torch.zeros(3, 1), torch.tensor([0, -1, 2]), torch.arange(3))
    losses = losses_of(objective, torch.zeros(3, 3), batch)
    assert objective.counts(batch.targets).tolist() == [True, False, True]
    assert losses[1] == 0
    assert bool((losses[[0, 2]] > 0).all())


def test_soft_labels_and_what_is_no_class_are_refused():
    objective = ForwardCorrected(C)
    with pytest.raises(
        UsageError, match=r"given labels.*Train on soft labels by cross_entropy"
    ):
        objective(torch.zeros(2, 3), torch.full((2, 3), 1 / 3))
    with pytest.raises(UsageError, match=r"takes logits \[B, 3\].*float32 of shape \(2, 4\)"):
        objective(torch.zeros(2, 4), torch.tensor([0, 1]))
    batch = Batch(torch.zeros(2, 1), torch.tensor([0, -100]), torch.arange(2))
    with pytest.raises(UnknownLabelError, match=r"row 1 of the batch has label -100"):
        losses_of(objective, torch.zeros(2, 3), batch)


@pytest.mark.parametrize("wrong", [torch.ones(2, 3) / 3, torch.ones(3) / 3, torch.eye(2) * 2])
def test_transitions_that_are_none_are_refused(wrong):
    with pytest.raises(UsageError, match="transitions"):
        ForwardCorrected(wrong)

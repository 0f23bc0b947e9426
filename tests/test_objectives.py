"""Weighted losses follow the one documented rule, to numbers worked out by hand, never NaN."""

import itertools

import pytest
import torch
from torch import Tensor

from tutelage.losses.objectives import (
    Normalise,
    TokenCrossEntropy,
    cross_entropy,
    nonzero,
    weighted_loss,
)

RULES: tuple[Normalise, ...] = ("mean", "group", None)


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def rows(count: int) -> Tensor:
    return torch.arange(count)


@pytest.mark.parametrize("normalise", RULES)
@pytest.mark.parametrize("raw", [(0.0, 0.0, 0.0, 0.0), (-0.3, -0.1, -2.0, -1e-9)])
def test_a_batch_without_weight_gives_zero_loss_and_zero_gradients(normalise, raw) -> None:
    theta = tensor(0.7, 0.2, 1.5, 0.1).requires_grad_()
    phi = tensor(*raw).requires_grad_()
    loss = weighted_loss(theta, phi.relu(), rows(4), normalise)
    assert loss.item() == 0.0
    (step,) = torch.autograd.grad(loss, theta, create_graph=True)
    assert torch.equal(step, torch.zeros_like(step))
    (hyper,) = torch.autograd.grad(step @ tensor(1, -2, 3, 4), phi)
    assert hyper.isfinite().all()


def test_weights_in_a_column_do_not_broadcast_over_the_batch() -> None:
    column = tensor(1, 0, 0).unsqueeze(1)
    assert weighted_loss(tensor(1, 2, 3), column, rows(3), "mean").item() == 1.0


@pytest.mark.parametrize("shape", [(3, 3), (1, 3), (2,), (4,), (), (3, 1, 1)])
@pytest.mark.parametrize("normalise", RULES)
def test_weights_of_another_shape_are_refused_with_both_shapes(normalise, shape) -> None:
    weights = torch.ones(shape, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"\(.*\) but losses \(3,\).*one weight per row"):
        weighted_loss(tensor(1, 2, 3), weights, rows(3), normalise)


@pytest.mark.parametrize(("normalise", "want"), [("mean", 1.0), (None, 0.5), ("group", 0.5)])
def test_the_divisor_is_the_weight_sum_or_the_number_of_examples(normalise, want) -> None:
    assert weighted_loss(tensor(1, 1), tensor(0, 1), rows(2), normalise).item() == want


@pytest.mark.parametrize(
    ("normalise", "want"),
    [
        ("mean", (1 + 6 + 0 + 16) / 6),
        (None, (1 + 6 + 0 + 16) / 4),
        ("group", ((1 + 6) / 4 + 16 / 2) / 2),
    ],
)
def test_each_rule_gives_the_number_worked_out_by_hand(normalise, want) -> None:
    group = torch.tensor([0, 0, 1, 1])
    got = weighted_loss(tensor(1, 2, 4, 8), tensor(1, 3, 0, 2), group, normalise)
    assert got.item() == pytest.approx(want, rel=1e-15)


def test_two_unequal_micro_batches_taken_as_one_divide_by_the_whole_weight() -> None:
    # (2 + 4 + 5) / 2.5; the mean of the two means would be 6.5
    got = weighted_loss(tensor(2, 4, 10), tensor(1, 1, 0.5), rows(3), "mean")
    assert got.item() == pytest.approx(4.4, rel=1e-15)


def test_a_group_without_weight_counts_as_an_example_of_loss_zero() -> None:
    losses = tensor(1, 2, 3, 5).requires_grad_()
    weights = tensor(0, 0, 1, 1).requires_grad_()
    loss = weighted_loss(losses, weights, torch.tensor([0, 0, 1, 1]), "group")
    assert loss.item() == 2.0
    (by_loss,) = torch.autograd.grad(loss, losses, create_graph=True)
    assert by_loss.tolist() == [0.0, 0.0, 0.25, 0.25]
    (mixed,) = torch.autograd.grad(by_loss @ tensor(1, 2, 3, 4), weights)
    assert mixed.isfinite().all()


def test_the_order_of_the_copies_does_not_matter() -> None:
    losses, weights, group = tensor(1, 2, 4, 8), tensor(1, 3, 5, 2), torch.tensor([1, 0, 1, 0])
    want = ((6 + 16) / 5 + (1 + 20) / 6) / 2
    for order in itertools.permutations(range(4)):
        at = torch.tensor(order)
        got = weighted_loss(losses[at], weights[at], group[at], "group")
        assert got.item() == pytest.approx(want, rel=1e-14)


@pytest.mark.parametrize("normalise", RULES)
def test_the_loss_is_linear_in_the_losses(normalise) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, weights = torch.rand(3, 12, generator=generator, dtype=torch.float64)
    group = rows(12) // 3

    def reduced(values: Tensor) -> Tensor:
        return weighted_loss(values, weights, group, normalise)

    torch.testing.assert_close(reduced(2 * a - 3 * b), 2 * reduced(a) - 3 * reduced(b))


@pytest.mark.parametrize("normalise", ["mean", "group"])
def test_only_the_ratio_of_weights_matters_where_they_are_rescaled(normalise) -> None:
    generator = torch.Generator().manual_seed(1)
    losses, weights = torch.rand(2, 12, generator=generator, dtype=torch.float64)
    group = rows(12) // 4
    want = weighted_loss(losses, weights, group, normalise)
    for scale in (1e-30, 3.0, 1e30):
        torch.testing.assert_close(
            weighted_loss(losses, scale * weights, group, normalise), want
        )


@pytest.mark.parametrize("normalise", RULES)
@pytest.mark.parametrize("count", [1, 2, 100, 257])
def test_equal_weights_give_the_plain_mean(count, normalise) -> None:
    losses = torch.rand(count, generator=torch.Generator().manual_seed(2))
    weight = 1.0 if normalise is None else 0.3
    got = weighted_loss(losses, torch.full_like(losses, weight), rows(count), normalise)
    torch.testing.assert_close(got, losses.mean(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("normalise", RULES)
@pytest.mark.parametrize(
    "kind",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool],
    ids=str,
)
def test_weights_of_another_precision_than_the_losses_are_taken_as_they_are(
    kind, normalise
) -> None:
    # autocast gives half weights beside full losses, a keep-or-drop teacher gives booleans
    losses, raw = torch.rand(2, 257, generator=torch.Generator().manual_seed(3))
    weights = (raw - 0.2).relu().to(kind)
    got = weighted_loss(losses, weights, rows(257), normalise)
    want = weighted_loss(losses, weights.float(), rows(257), normalise)
    # roundings of float32, not of a sum in half precision
    torch.testing.assert_close(got, want, rtol=1e-5, atol=0, check_dtype=False)


def test_an_empty_batch_gives_zero() -> None:
    for normalise in RULES:
        assert weighted_loss(tensor(), tensor(), rows(0), normalise).item() == 0.0


def test_nonzero_replaces_zeros_only() -> None:
    assert nonzero(tensor(0, 2, 1e-300)).tolist() == [1.0, 2.0, 1e-300]


def test_soft_labels_mix_the_losses_of_the_classes() -> None:
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 1, 0])
    one_hot = torch.nn.functional.one_hot(labels, 3).double()
    by_class = torch.stack([cross_entropy(logits, torch.full((5,), c)) for c in range(3)], 1)
    torch.testing.assert_close(cross_entropy(logits, one_hot), cross_entropy(logits, labels))
    soft = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).expand(5, 3)
    torch.testing.assert_close(cross_entropy(logits, soft), (soft * by_class).sum(1))


def test_cross_entropy_is_in_nats_and_one_per_example() -> None:
    got = cross_entropy(torch.zeros(2, 4, dtype=torch.float64), torch.tensor([0, 3]))
    torch.testing.assert_close(got, torch.log(tensor(4, 4)))


def test_tokens_of_a_sequence_are_averaged_and_padding_is_left_out():
    torch.manual_seed(0)
    logits = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([[1, 2, -100, -100], [0, 3, 4, 1], [-100] * 4])
    losses = TokenCrossEntropy()(logits, targets)
    by_hand = -logits.log_softmax(2)
    wanted = [by_hand[0, [0, 1], [1, 2]].mean(), by_hand[1, range(4), [0, 3, 4, 1]].mean()]
    torch.testing.assert_close(losses[:2], torch.stack(wanted))
    assert losses[2] == 0
    losses.sum().backward()
    assert logits.grad is not None
    assert (logits.grad[0, 2:] == 0).all()
    assert (logits.grad[2] == 0).all()


def test_smoothed_tokens_share_a_little_with_all_others():
    logits, targets = torch.randn(1, 2, 5, dtype=torch.float64), torch.tensor([[3, -100]])
    log = logits[0, 0].log_softmax(0)
    wanted = -(0.9 * log[3] + 0.1 * log.mean())
    torch.testing.assert_close(TokenCrossEntropy(0.1)(logits, targets), wanted.unsqueeze(0))


def test_tokens_that_do_not_match_their_logits_are_refused():
    with pytest.raises(ValueError, match=r"give logits \[B, T, V\]"):
        TokenCrossEntropy()(torch.randn(2, 4, 5), torch.zeros(2, 3, dtype=torch.int64))

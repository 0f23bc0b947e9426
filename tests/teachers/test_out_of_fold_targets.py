"""Targets that start at the closed form of cross-fitting and learn how far to leave it."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from tests.teachers.finite import assert_exact
from tutelage.crossfit import label_posterior, sharpened
from tutelage.errors import UsageError
from tutelage.signals import Lookahead, Reversible, Signal, Unrolled
from tutelage.teachers import OutOfFoldTargets
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress

N, D, C = 40, 5, 3


def material(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Out-of-fold probabilities and given labels of N examples."""
    generator = torch.Generator().manual_seed(seed)
    p = (2 * torch.randn(N, C, generator=generator, dtype=torch.float64)).softmax(1)
    return p, torch.randint(0, C, (N,), generator=generator)


def batch_of(ids: Tensor, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(ids), D, generator=generator, dtype=torch.float64)
    return Batch(x, material()[1][ids % N], ids)


TRANSITIONS = torch.tensor(
    [[0.8, 0.2, 0.0], [0.1, 0.7, 0.2], [0.3, 0.0, 0.7]], dtype=torch.float64
)


@pytest.mark.parametrize("transitions", [None, TRANSITIONS])
def test_it_starts_at_the_closed_form_whatever_the_example(transitions):
    p, given = material()
    ids = torch.arange(N).flip(0)
    teacher = OutOfFoldTargets(ids, p, given, transitions=transitions, share=0.9).double()
    shown = torch.tensor([7, 0, 39])
    prepared = teacher.prepare(batch_of(shown))
    rows = N - 1 - shown
    closed = sharpened(p) if transitions is None else label_posterior(p, TRANSITIONS, given)
    want = 0.1 * F.one_hot(batch_of(shown).targets, C) + 0.9 * closed[rows]
    torch.testing.assert_close(prepared.targets, want)
    seen = Observation(torch.zeros(3), torch.zeros(3, C), {}, Progress())
    assert teacher.weigh(prepared, seen).tolist() == [0.5] * 3


def stirred(teacher: OutOfFoldTargets) -> OutOfFoldTargets:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in teacher.parameters():
            p.copy_(0.4 * torch.randn(p.shape, generator=generator))
    return teacher


def student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 6), nn.Tanh(), nn.Linear(6, C)).double()


@pytest.mark.parametrize("signal", [Unrolled(2), Reversible(2), Lookahead()], ids=str)
def test_the_hypergradient_is_the_slope_of_real_training(signal: Signal):
    p, given = material()
    teacher = stirred(OutOfFoldTargets(torch.arange(N), p, given, width=4)).double()
    batches = [batch_of(torch.arange(6) + 6 * k, k) for k in range(signal.steps)]
    assert_exact(student, teacher, batches, batch_of(torch.arange(6), 9), signal=signal)


def test_decoupled_decay_alone_brings_it_back_to_the_closed_form():
    p, given = material()
    teacher = stirred(OutOfFoldTargets(torch.arange(N), p, given)).double()
    before = teacher.logits(torch.arange(N)).abs().max()
    rule = AdamW(teacher.parameters(), lr=0.005, weight_decay=2.0)
    for parameter in teacher.parameters():
        parameter.grad = torch.zeros_like(parameter)
    shrunk = {k: 0.99 * q.detach() for k, q in teacher.named_parameters()}
    rule.step()
    for key, q in teacher.named_parameters():
        torch.testing.assert_close(q.detach(), shrunk[key])
    for _ in range(1500):
        rule.step()
    assert before > 0.1
    assert teacher.logits(torch.arange(N)).abs().max() < 1e-5


def test_it_learns_to_keep_labels_that_are_right_where_predictions_are_wrong():
    """Given labels are right, predictions are those of a shifted class."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, D, generator=generator)
    y = x[:, :C].argmax(1)
    p = 0.8 * F.one_hot((y + 1) % C, C) + 0.2 / C
    torch.manual_seed(0)
    teacher = OutOfFoldTargets(torch.arange(200), p, y, share=0.9)
    trained = nn.Linear(D, C)
    learner = AdamW(teacher.parameters(), lr=0.05, weight_decay=0.0)
    rule = SGD(trained.parameters(), lr=0.5, momentum=0.9)
    tutor = Tutor(trained, rule, teacher, learner, signal=Unrolled(1), teacher_every=2)
    for _ in range(120):
        ids = torch.randint(0, 100, (32,), generator=generator)
        held = torch.randint(100, 200, (32,), generator=generator)
        wants = Batch(x[held], y[held], held) if tutor.wants_held_out else None
        tutor.step(Batch(x[ids], y[ids], ids), wants)
    targets, weights = teacher.targets()
    assert float((targets.argmax(1) == y).float().mean()) == 1.0
    assert weights.shape == (200,)
    with torch.no_grad():
        assert float((trained(x).argmax(1) == y).float().mean()) > 0.8


def test_facts_are_standardised_and_those_that_do_not_differ_are_zero():
    p, given = material()
    extra = torch.stack([torch.full((N,), 3.0), torch.arange(N) / 7], 1)
    teacher = OutOfFoldTargets(torch.arange(N), p, given, extra=extra)
    assert teacher.facts.shape == (N, 6)
    torch.testing.assert_close(teacher.facts.mean(0), 0 * teacher.facts[0], atol=1e-12, rtol=0)
    spread = teacher.facts.std(0, correction=0)
    assert spread.tolist() == pytest.approx([1, 1, 1, 1, 0, 1])


def test_one_class_that_is_certain_gives_finite_facts():
    p = torch.eye(3)
    teacher = OutOfFoldTargets(torch.arange(3), p, torch.tensor([0, 2, 1]))
    assert bool(teacher.facts.isfinite().all())
    assert bool(teacher.targets()[0].isfinite().all())


P = [[0.5, 0.5], [0.2, 0.8]]
WRONG = {
    "an id twice": ([3, 3], P, [0, 1], {}, "ids 3 are negative or come twice"),
    "a negative id": ([0, -1], P, [0, 1], {}, "ids -1 are negative"),
    "real ids": ([0.0, 1.0], P, [0, 1], {}, "whole numbers"),
    "too few ids": ([0], P, [0, 1], {}, r"there are 1 ids for .* \(2, 2\)"),
    "a label beyond": ([0, 1], P, [0, 2], {}, "row 1 of given is 2"),
    "no distribution": ([0, 1], [[0.5, 0.5], [0.9, 0.9]], [0, 1], {}, "row 1 of prob"),
    "a share of one": ([0, 1], P, [0, 1], {"share": 1.0}, "share is 1; allowed: above 0"),
    "no unit": ([0, 1], P, [0, 1], {"width": 0}, "width is 0; allowed: 1"),
    "too few facts": ([0, 1], P, [0, 1], {"extra": torch.zeros(1, 2)}, "extra has shape"),
    "a fact that is none": (
        *([0, 1], P, [0, 1]),
        *({"extra": torch.tensor([[0.0], [float("inf")]])}, "finite numbers"),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name):
    ids, p, given, options, message = WRONG[name]
    with pytest.raises(UsageError, match=message):
        OutOfFoldTargets(torch.tensor(ids), torch.tensor(p), torch.tensor(given), **options)


def test_examples_without_a_prediction_are_named():
    p, given = material()
    teacher = OutOfFoldTargets(torch.arange(N), p, given)
    with pytest.raises(UsageError, match="no out-of-fold prediction is there for the ids 99"):
        teacher.prepare(batch_of(torch.tensor([1, 99])))

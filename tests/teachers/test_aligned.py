"""Weights by the held-out gradient are those of a look-ahead from weights of zero."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import SGD, Adam

from tests.cases import C, D, build, stream
from tests.tutoring import WithoutForwardMode, same
from tutelage.commentaries import load_commentary, save_commentary
from tutelage.errors import UsageError
from tutelage.functional.trees import leaves
from tutelage.losses.objectives import cross_entropy
from tutelage.randomness import mixed_seed, seeded
from tutelage.signals import Unrolled
from tutelage.teachers import Aligned, Blending, CombinedTeacher
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress, as_prepared

RATE = 0.1
STUDENTS = (
    "relu network",
    "batch norm",
    "group norm",
    "tied",
    "recurrent",
    "frozen and unused",
)


def without_forward_mode() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 5), WithoutForwardMode(), nn.Linear(5, C)).double()


def losses_of(student: nn.Module, params: dict[str, Tensor], batch: Batch) -> Tensor:
    own = params | {k: b.clone() for k, b in student.named_buffers()}
    return cross_entropy(functional_call(student, own, (batch.inputs,)), batch.targets)


def by_double_backward(student: nn.Module, batch: Batch, held_out: Batch) -> Tensor:
    """Algorithm 1 of Ren et al. 2018, as it is written."""
    own: dict[str, Tensor] = dict(student.named_parameters())
    params = {k: p for k, p in own.items() if p.requires_grad}
    fixed = {k: p for k, p in own.items() if not p.requires_grad}
    eps = torch.zeros(len(batch.ids), dtype=torch.float64, requires_grad=True)
    loss = (eps * losses_of(student, params | fixed, batch)).sum()
    grads = torch.autograd.grad(
        loss, list(params.values()), create_graph=True, materialize_grads=True
    )
    tried = {k: p - RATE * g for (k, p), g in zip(params.items(), grads, strict=True)}
    judged = losses_of(student, tried | fixed, held_out).mean()
    (slope,) = torch.autograd.grad(judged, eps)
    weights = (-slope).clamp(min=0)
    total = weights.sum()
    return weights / (total if total > 0 else 1.0)


def taught(student: nn.Module, rule: torch.optim.Optimizer) -> Tutor:
    return Tutor(student, rule, Aligned(), seed=5)


def momentum(student: nn.Module) -> SGD:
    moved = [p for p in student.parameters() if p.requires_grad]
    return SGD(moved, lr=RATE, momentum=0.9, weight_decay=1e-3)


@pytest.mark.parametrize("name", [*STUDENTS, "without forward mode"])
def test_a_run_is_the_papers_algorithm(name) -> None:
    make = without_forward_mode if name == "without forward mode" else lambda: build(name)
    student, other = make(), make()
    tutor, rule = taught(student, momentum(student)), momentum(other)
    training, judging = stream(0), stream(1)
    for _ in range(4):
        batch, held_out = next(training), next(judging)
        assert tutor.wants_held_out
        record = tutor.step(batch, held_out)
        weights = by_double_backward(other, batch, held_out)
        assert 0 < weights.count_nonzero() < len(weights)
        losses = cross_entropy(other(batch.inputs), batch.targets)
        rule.zero_grad()
        (weights * losses).sum().backward()
        rule.step()
        torch.testing.assert_close(
            record.weights / record.weights.sum(), weights, rtol=1e-8, atol=1e-10
        )
    for ours, theirs in zip(
        student.state_dict().values(), other.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_weights_see_the_dropout_of_the_very_step() -> None:
    student = build("dropout")
    tutor, batches = taught(student, SGD(student.parameters(), lr=RATE)), stream()
    before = {k: p.detach().clone() for k, p in student.named_parameters()}
    batch, held_out = next(batches), next(batches)
    state = torch.get_rng_state()
    record = tutor.step(batch, held_out)
    assert torch.equal(torch.get_rng_state(), state)
    # step and judge again, each under its own seed
    seeds = mixed_seed(5, 0) + 1, mixed_seed(5, 0, 1) + 1
    theta = leaves(before)
    kept = []
    for seed, rows in zip(seeds, (batch, held_out), strict=True):
        with seeded(seed, torch.device("cpu")):
            kept.append(losses_of(student, theta, rows))
    towards = torch.autograd.grad(kept[1].mean(), list(theta.values()))
    for row, loss in enumerate(kept[0]):
        grads = torch.autograd.grad(loss, list(theta.values()), retain_graph=True)
        want = sum((g * t).sum().item() for g, t in zip(grads, towards, strict=True))
        assert record.weights[row].item() == pytest.approx(max(want, 0.0), rel=1e-9)


def test_a_batch_that_points_away_teaches_nothing() -> None:
    student = build("linear")
    tutor = taught(student, SGD(student.parameters(), lr=RATE))
    batch = next(stream())
    one = Batch(batch.inputs[:1], batch.targets[:1], batch.ids[:1])
    wrong = one._replace(targets=(one.targets + 1) % C)
    before = {k: p.detach().clone() for k, p in student.named_parameters()}
    record = tutor.step(wrong, one)
    assert not record.weights.any()
    assert all(torch.equal(p, before[k]) for k, p in student.named_parameters())


def test_a_stopped_run_goes_on_bit_for_bit() -> None:
    def tutor() -> Tutor:
        student = build("dropout")
        return taught(student, Adam(student.parameters(), lr=0.01))

    whole, first, second = tutor(), tutor(), tutor()
    for n in range(5):
        whole.step(next(stream(n)), next(stream(100 + n)))
    for n in range(2):
        first.step(next(stream(n)), next(stream(100 + n)))
    second.load_state_dict(first.state_dict())
    for n in range(2, 5):
        second.step(next(stream(n)), next(stream(100 + n)))
    assert same(second.state_dict(), whole.state_dict())


def test_it_weighs_what_another_teacher_prepared() -> None:
    student = build("relu network")
    teacher = CombinedTeacher(Blending(C).double(), Aligned())
    tutor = Tutor(student, SGD(student.parameters(), lr=RATE), teacher)
    batches = stream()
    assert tutor.wants_held_out
    assert tutor.step(next(batches), next(batches)).weights.any()


def test_held_out_examples_are_asked_for() -> None:
    student = build("linear")
    tutor = taught(student, SGD(student.parameters(), lr=RATE))
    with pytest.raises(ValueError, match="give held_out"):
        tutor.step(next(stream()))


def test_elsewhere_than_at_a_real_step_it_is_refused() -> None:
    batch, losses = next(stream()), torch.zeros(6)
    with pytest.raises(UsageError, match="train with a Tutor"):
        Aligned().weigh(as_prepared(batch), Observation(losses, losses, {}, Progress()))


def test_no_signal_can_take_its_steps_again() -> None:
    student, teacher = build("linear"), CombinedTeacher(Blending(C).double(), Aligned())
    with pytest.raises(ValueError, match="leave out signal"):
        Tutor(
            student,
            SGD(student.parameters(), lr=RATE),
            teacher,
            SGD(teacher.parameters(), lr=0.1),
            signal=Unrolled(1),
        )


def test_it_is_stored_and_loaded(tmp_path) -> None:
    save_commentary(Aligned(), tmp_path / "aligned")
    assert isinstance(load_commentary(tmp_path / "aligned", build("linear")), Aligned)

"""Steps that leave rows out: exact at zero, within their bound, refused under dropout."""

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.errors import UnsupportedStudentError
from tutelage.losses.objectives import cross_entropy
from tutelage.randomness import mixed_seed
from tutelage.signals import Lookahead
from tutelage.teachers import CombinedTeacher, Copies, LossWeigher, WorstCase, WorstCaseSoft
from tutelage.training.forward import StepResult, apply_weights, prepare_batch
from tutelage.training.skip_rows import rows_above_share
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Step

B, K, C, D = 6, 5, 3, 8


def noisy(inputs: Tensor, *, seed: int) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return inputs + 0.3 * torch.randn(inputs.shape, generator=draws, dtype=inputs.dtype)


def batch_of() -> Batch:
    draws = torch.Generator().manual_seed(3)
    x = 2 * torch.randn(B, D, generator=draws, dtype=torch.float64)
    return Batch(x, torch.randint(C, (B,), generator=draws), torch.arange(B))


def student_of(*between: nn.Module, scale: float = 3.0) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(D, 16), *between, nn.Tanh(), nn.Linear(16, C)).double()
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(scale)  # sure of most rows, as a trained student is
    return net


def step(student: nn.Module, weigher: nn.Module) -> tuple[Tensor, Tutor, StepResult]:
    teacher = CombinedTeacher(Copies(K, noisy, include_original=True), weigher)
    tutor = Tutor(student, SGD(student.parameters(), 0.0), teacher)
    record = tutor.step(batch_of())
    found = [p.grad.flatten() for p in student.parameters() if p.grad is not None]
    return torch.cat(found), tutor, record


WEIGHERS = {"hard": WorstCase, "soft": lambda t, **k: WorstCaseSoft(t, 1.0, **k)}


@pytest.mark.parametrize("kind", WEIGHERS)
def test_a_tiny_share_gives_the_whole_gradient_loss_and_weights(kind) -> None:
    make = WEIGHERS[kind]
    whole, _, all_rows = step(student_of(), make(0.5))
    light, _, some = step(student_of(), make(0.5, drop_below=1e-15))
    assert torch.allclose(light, whole, rtol=1e-9, atol=1e-12)
    assert torch.allclose(some.loss, all_rows.loss, rtol=1e-12)
    assert torch.allclose(some.weights, all_rows.weights, rtol=1e-12)
    assert torch.equal(some.losses, all_rows.losses)
    assert all_rows.left_out is None
    assert _left_out(some) <= 1e-15


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("kind", WEIGHERS)
def test_what_is_left_out_stays_within_the_bound(kind, share) -> None:
    make = WEIGHERS[kind]
    student = student_of()
    whole, tutor, _ = step(student, make(0.5))
    light, _, some = step(student_of(), make(0.5, drop_below=share))
    assert 0 < _left_out(some) <= share
    inputs = _inputs(tutor)
    params = dict(student.named_parameters())

    def logits(theta: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(student, dict(theta), (x,))

    jacobian = torch.func.vmap(torch.func.jacrev(logits), (None, 0))(params, inputs)
    flat = torch.cat([j.flatten(2) for j in jacobian.values()], 2)
    highest = torch.linalg.matrix_norm(flat, 2).max()
    out = logits(params, inputs).detach().requires_grad_()
    pull = torch.autograd.grad(_descended(tutor, out), out)[0].norm(dim=1).sum()
    assert (light - whole).norm() <= _left_out(some) * pull * highest * (1 + 1e-9)
    assert (light - whole).norm() > 0


def _left_out(record: StepResult) -> Tensor:
    assert record.left_out is not None
    return record.left_out


def _inputs(tutor: Tutor) -> Tensor:
    return _prepared(tutor).inputs


def _prepared(tutor: Tutor) -> PreparedBatch:
    return prepare_batch(tutor.problem, batch_of()._replace(seed=mixed_seed(tutor.seed, 0)))


def _descended(tutor: Tutor, logits: Tensor) -> Tensor:
    prepared = _prepared(tutor)
    losses = cross_entropy(logits, prepared.targets)
    seen = Observation(losses, logits, {}, tutor.progress)
    return apply_weights(
        tutor.problem, Step(batch_of(), seen.progress, {}), prepared, seen
    ).loss


def test_rows_of_least_mass_are_dropped_and_two_are_always_kept() -> None:
    mass = torch.tensor([4.0, 0.5, 3.0, 0.5, 2.0])
    rows, left_out = rows_above_share(mass, 0.1)
    assert rows.tolist() == [0, 2, 4]
    assert left_out.item() == pytest.approx(0.1)
    assert rows_above_share(mass, 0.099)[0].tolist() == [0, 2, 3, 4]
    assert rows_above_share(mass, 1.0)[0].tolist() == [0, 2]
    assert len(rows_above_share(torch.zeros(5), 0.1)[0]) == 2
    broken = mass.index_fill(0, torch.tensor([1]), torch.nan)
    assert len(rows_above_share(broken, 0.5)[0]) == 5


def test_batch_normalisation_counts_all_rows_once() -> None:
    whole, light = (student_of(nn.BatchNorm1d(16), scale=1.0) for _ in range(2))
    step(whole, WorstCase(0.5))
    step(light, WorstCase(0.5, drop_below=0.3))
    for a, b in zip(whole.buffers(), light.buffers(), strict=True):
        assert torch.equal(a, b)


def test_dropout_is_refused() -> None:
    with pytest.raises(UnsupportedStudentError, match="as dropout makes it"):
        step(student_of(nn.Dropout(0.5)), WorstCase(0.5, drop_below=0.3))


def test_a_teacher_that_learns_sees_all_rows() -> None:
    student, weigher = student_of(), LossWeigher(width=4)
    weigher.__dict__["drop_below"] = 0.1
    with pytest.raises(ValueError, match="drop_below to 0"):
        Tutor(
            student,
            SGD(student.parameters(), 0.1),
            weigher,
            SGD(weigher.parameters(), 0.1),
            signal=Lookahead(),
        )
    with pytest.raises(ValueError, match=r"in 0\.\.1"):
        WorstCase(1.0, drop_below=1.5)

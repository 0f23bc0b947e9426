"""A student with a second head learns what a teacher invents for it, and is judged without."""

import pytest
import torch
from torch import Tensor, nn

from tests.cases import C, D, InputWeigher
from tests.teachers.finite import assert_exact, train
from tutelage.errors import UnsupportedStudentError, UsageError
from tutelage.losses.objectives import Auxiliary, binary_cross_entropy, cross_entropy
from tutelage.signals import Implicit, Lookahead, Unrolled
from tutelage.signals.products import Alignment
from tutelage.signals.solvers import Neumann
from tutelage.teachers import AuxiliaryTargets, CombinedTeacher
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, as_prepared

K = 4
OBJECTIVE = Auxiliary(cross_entropy)


class TwoHeads(nn.Module):
    """Gives logits and what it makes of the auxiliary targets."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(D, 6)
        self.head, self.second = nn.Linear(6, C), nn.Linear(6, K)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x).tanh()
        return self.head(hidden), self.second(hidden)


def student() -> nn.Module:
    torch.manual_seed(0)
    return TwoHeads().double()


def teacher() -> AuxiliaryTargets:
    torch.manual_seed(1)
    return AuxiliaryTargets(nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, K))).double()


def batch(seed: int, size: int = 5) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, D, generator=generator, dtype=torch.float64)
    return Batch(x, torch.randint(0, C, (size,), generator=generator), torch.arange(size))


def test_the_prepared_batch_holds_vectors_between_minus_one_and_one() -> None:
    prepared = teacher().prepare(batch(0))
    assert prepared.aux is not None
    assert prepared.aux.shape == (5, K)
    assert (prepared.aux.abs() < 1).all()
    assert torch.equal(prepared.inputs, batch(0).inputs)


def test_the_objective_adds_the_mean_squared_distance_only_where_there_are_targets() -> None:
    logits, second = student()(batch(0).inputs)
    targets, aux = batch(0).targets, torch.full((5, K), 0.5, dtype=torch.float64)
    plain = cross_entropy(logits, targets)
    torch.testing.assert_close(OBJECTIVE((logits, second), targets), plain)
    want = plain + ((second - 0.5) ** 2).sum(1) / K
    torch.testing.assert_close(OBJECTIVE((logits, second), targets, aux), want)


def test_auxiliary_targets_of_another_shape_do_not_broadcast() -> None:
    outputs = student()(batch(0).inputs)
    with pytest.raises(ValueError, match=r"\(5, 4\) but the auxiliary targets \(5, 1\)"):
        OBJECTIVE(outputs, batch(0).targets, torch.zeros(5, 1))


def test_a_student_without_a_second_output_is_told_what_it_lacks() -> None:
    module = nn.Linear(D, C).double()
    tutor = Tutor(module, torch.optim.SGD(module.parameters(), lr=0.1), teacher())
    with pytest.raises(UsageError, match="predicts nothing beside its logits"):
        tutor.step(batch(1))


def test_binary_cross_entropy_is_the_mean_over_attributes() -> None:
    logits = torch.tensor([[0.0, 2.0]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    want = (torch.tensor(2.0).double().log() + torch.tensor(2.0).double().exp().log1p()) / 2
    torch.testing.assert_close(binary_cross_entropy(logits, targets), want.reshape(1))


@pytest.mark.parametrize("size", [1, 5])
def test_the_hypergradient_is_the_slope_of_real_training(size) -> None:
    batches = [batch(1, size), batch(2, size)]
    estimate = assert_exact(student, teacher(), batches, batch(9), OBJECTIVE)
    assert all(grad.isfinite().all() and grad.any() for grad in estimate.grad.values())


def test_looking_one_step_ahead_sees_that_more_than_weights_are_learned() -> None:
    teach, batches = teacher(), [batch(1)]
    wanted, _ = train(student, teach, batches, batch(9), Unrolled(1), OBJECTIVE)
    got, _ = train(student, teach, batches, batch(9), Lookahead(), OBJECTIVE)
    assert wanted is not None
    assert got is not None
    for name, grad in wanted.grad.items():
        torch.testing.assert_close(got.grad[name], grad)
    with pytest.raises(UnsupportedStudentError, match="does more than weigh"):
        train(student, teach, batches, batch(9), Lookahead(Alignment()), OBJECTIVE)


def test_the_implicit_gradient_reaches_it() -> None:
    signal = Implicit(Neumann(terms=3, scale=0.1))
    estimate, _ = train(student, teacher(), [batch(1)], batch(9), signal, OBJECTIVE)
    assert estimate is not None
    assert all(grad.isfinite().all() and grad.any() for grad in estimate.grad.values())


def test_another_teacher_may_weigh_beside_it() -> None:
    torch.manual_seed(2)
    both = CombinedTeacher(teacher(), InputWeigher().double())
    assert_exact(student, both, [batch(1), batch(2)], batch(9), OBJECTIVE)


def test_rows_are_recorded_with_their_auxiliary_loss_and_logits() -> None:
    module, teach = student(), teacher()
    tutor = Tutor(
        module, torch.optim.SGD(module.parameters(), lr=0.1), teach, objective=OBJECTIVE
    )
    outputs = module(batch(1).inputs)
    aux = teach.prepare(batch(1)).aux
    want = OBJECTIVE(outputs, batch(1).targets, aux)
    assert torch.equal(tutor.step(batch(1)).losses, want.detach())
    assert as_prepared(batch(1)).aux is None

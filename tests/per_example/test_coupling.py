"""What is read off one pass is refused where rows depend on one another."""

import pytest
import torch
from torch import nn

from tests.awkward import OBJECTIVES, STUDENTS, B, Body, D, contrastive, plain
from tests.per_example.oracle import direction_for
from tutelage.errors import UnsupportedStudentError
from tutelage.per_example import Recorder
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.per_example.coupling import FIRST, KNOWN, KnownGraphs, graph_of
from tutelage.types import Batch

F64 = torch.float64


def coupled(kind: str) -> tuple[nn.Module, Batch]:
    torch.manual_seed(0)
    x = torch.randn(B, D, dtype=F64)
    x[0, 0] = 1.0
    student = STUDENTS[kind]().double()
    nn.init.normal_(student.get_parameter("head.weight"))
    if kind == "Gated":
        student.get_parameter("gate").data.fill_(0.5)
    return student, Batch(x, torch.arange(B) % 3, torch.arange(B), seed=3)


OWN = [kind for kind in STUDENTS if kind != "BatchNorm"]


@pytest.mark.parametrize("kind", OWN)
def test_auto_is_exact_and_ghost_refused_for_a_coupled_student(kind) -> None:
    student, batch = coupled(kind)
    g = direction_for(student)
    exact = gradient_dots(student, batch, g, method="forward")
    torch.testing.assert_close(gradient_dots(student, batch, g), exact, rtol=1e-9, atol=0)
    with pytest.raises(UnsupportedStudentError, match=r"method='forward'"):
        gradient_dots(student, batch, g, method="ghost")


@pytest.mark.parametrize("kind", OWN)
def test_a_recorder_in_any_loop_refuses_a_coupled_student(kind) -> None:
    student, batch = coupled(kind)
    with Recorder(student).record(B) as recording:
        plain(student(batch.inputs), batch.targets).sum().backward()
    with pytest.raises(UnsupportedStudentError, match=r"method='forward'"):
        recording.dots(direction_for(student), recording.ones())


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES.keys())
def test_a_coupled_objective_is_refused_where_it_is_verified(objective) -> None:
    student, (x, _, ids, *_) = Body().double(), coupled("Centred")[1]
    batch, g = Batch(x, ids.roll(1) % 3, ids), direction_for(student)
    exact = gradient_dots(student, batch, g, method="forward", objective=objective)
    found = gradient_dots(student, batch, g, objective=objective)
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=0)
    with pytest.raises(UnsupportedStudentError, match="the objective's loss of a row depends"):
        gradient_dots(student, batch, g, method="ghost", objective=objective)
    with Recorder(student).record(B) as recording:
        losses = objective(student(x), batch.targets)
        recording.verify(losses)
        losses.sum().backward()
    with pytest.raises(UnsupportedStudentError, match="the objective's loss of a row depends"):
        recording.dots(g, recording.ones())


def test_batch_statistics_leave_shares_and_a_coupled_objective_beside_them_is_refused() -> None:
    student, batch = coupled("BatchNorm")
    g = direction_for(student)
    shares = gradient_dots(student, batch, g, method="ghost")
    exact = gradient_dots(student, batch, g, method="forward")
    torch.testing.assert_close(shares.sum(), exact.sum())
    with pytest.raises(UnsupportedStudentError, match="the objective's loss of a row depends"):
        gradient_dots(student, batch, g, method="ghost", objective=contrastive)


def test_gradients_are_those_of_the_loss_alone_whatever_is_checked() -> None:
    student, batch = Body().double(), coupled("Centred")[1]
    plain(student(batch.inputs), batch.targets).sum().backward()
    expected = {k: p.grad for k, p in student.named_parameters()}
    student.zero_grad()
    student.get_parameter("below.weight").register_hook(lambda g: g)
    with Recorder(student).record(B) as recording:
        losses = plain(student(batch.inputs), batch.targets)
        recording.verify(losses)
        losses.sum().backward()
    for name, p in student.named_parameters():
        want = expected[name]
        assert p.grad is not None
        assert want is not None
        assert torch.equal(p.grad, want)
        assert torch.equal(recording.gradient[name], want)


def test_what_is_known_is_checked_at_powers_of_two_and_what_is_new_always() -> None:
    checked = KnownGraphs()
    due = [number for number in range(1, 41) if checked.due((0, 8))]
    assert due == [*range(1, FIRST + 1), 8, 16, 32]
    assert checked.due((1, 8))
    assert checked.due((1, 9))
    assert not checked.due((1, 9))


def test_graphs_of_other_operators_have_other_numbers() -> None:
    student, batch = Body().double(), coupled("Centred")[1]
    student.double()

    def graph(rows: int, scale: bool) -> int:
        z = student(batch.inputs[:rows])
        return graph_of(plain(z * 2 if scale else z, batch.targets[:rows]))

    assert graph(8, scale=False) == graph(5, scale=False) != graph(8, scale=True)


def test_a_student_that_goes_leaves_nothing_behind() -> None:
    student, batch = Body().double(), coupled("Centred")[1]
    gradient_dots(student, batch, direction_for(student))
    assert student in KNOWN
    before = len(KNOWN)
    del student
    assert len(KNOWN) < before


def test_a_single_row_depends_on_no_other() -> None:
    student, batch = Body().double(), coupled("Centred")[1]
    one = Batch(batch.inputs[:1], batch.targets[:1], batch.ids[:1])
    g = direction_for(student)
    torch.testing.assert_close(
        gradient_dots(student, one, g), gradient_dots(student, one, g, method="forward")
    )

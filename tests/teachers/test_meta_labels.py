"""The two published teachers that give each example a target of their own."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from tests.teachers.finite import assert_exact
from tutelage.errors import UsageError
from tutelage.signals import Lookahead, Reversible, Signal, Unrolled
from tutelage.teachers import MetaLabelCorrection, MetaSoftLabelCorrector
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared

D, H, C, N = 5, 4, 3, 8
Z = torch.randn(N, C, generator=torch.Generator().manual_seed(4), dtype=torch.float64).softmax(
    1
)


def student() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, C)).double()


def batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(6, D, generator=generator, dtype=torch.float64)
    ids = torch.randperm(N, generator=generator)[:6]
    return Batch(x, torch.randint(0, C, (6,), generator=generator), ids)


def correction() -> MetaLabelCorrection:
    torch.manual_seed(1)
    made = MetaLabelCorrection(student(), classes=C, tap="1", embedding=2, width=3)
    return made.double()


def corrector() -> MetaSoftLabelCorrector:
    torch.manual_seed(1)
    return MetaSoftLabelCorrector(torch.arange(N), Z, width=4).double()


TEACHERS: dict[str, Callable[[], MetaLabelCorrection | MetaSoftLabelCorrector]] = {
    "meta label correction": correction,
    "meta soft label corrector": corrector,
}


def shown() -> tuple[PreparedBatch, Observation]:
    taken, net = batch(2), student()
    hidden = net[:2](taken.inputs)  # pyright: ignore[reportIndexIssue] - a Sequential
    logits = net[2](hidden)  # pyright: ignore[reportIndexIssue, reportCallIssue]
    return as_prepared(taken), Observation(logits[:, 0], logits, {"1": hidden}, Progress())


def test_meta_label_correction_is_its_formula_for_every_example():
    teacher, (prepared, seen) = correction(), shown()
    got = teacher.row_losses(prepared, seen)
    for row, label in enumerate(prepared.targets.tolist()):
        told = torch.cat([seen.features["1"][row], teacher.labels.weight[:, label]])
        target = teacher.net(told).softmax(0)
        want = -(target * seen.logits[row].softmax(0).log()).sum()
        torch.testing.assert_close(got[row], want, rtol=1e-12, atol=0)


def test_the_meta_soft_label_corrector_is_its_formula_for_every_example():
    teacher, (prepared, seen) = corrector(), shown()
    got = teacher.row_losses(prepared, seen)
    for row, label in enumerate(prepared.targets.tolist()):
        p, z = seen.logits[row].softmax(0), Z[prepared.ids[row]]
        y = F.one_hot(torch.tensor(label), C).double()
        alpha = teacher.by_given(-(y * p.log()).sum().reshape(1)).sigmoid()
        beta = teacher.by_previous(-(z * p.log()).sum().reshape(1)).sigmoid()
        target = alpha * y + (1 - alpha) * (beta * z + (1 - beta) * p)
        torch.testing.assert_close(got[row], -(target * p.log()).sum(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", TEACHERS)
def test_the_targets_are_distributions_through_which_no_gradient_reaches_the_student(name):
    teacher, (prepared, seen) = TEACHERS[name](), shown()
    found = teacher.corrected(prepared, seen)
    torch.testing.assert_close(found.sum(1), torch.ones(6, dtype=torch.float64))
    (by_logits,) = torch.autograd.grad(teacher.row_losses(prepared, seen).sum(), seen.logits)
    torch.testing.assert_close(by_logits, seen.logits.softmax(1) - found)


@pytest.mark.parametrize("signal", [Unrolled(1), Lookahead(), Reversible(1)], ids=str)
@pytest.mark.parametrize("name", TEACHERS)
def test_through_one_step_it_is_the_slope_of_real_training(name, signal: Signal):
    assert_exact(student, TEACHERS[name](), [batch(1)], batch(9), signal=signal)


def test_targets_of_a_step_are_those_that_the_next_one_starts_from():
    teacher, net = corrector(), student()
    tutor = Tutor(net, SGD(net.parameters(), lr=0.5), teacher)
    before, taken = teacher.previous.clone(), batch(3)
    logits = net(taken.inputs)
    seen = Observation(logits[:, 0], logits, {}, Progress())
    wanted = teacher.corrected(as_prepared(taken), seen).detach()
    tutor.step(taken)
    torch.testing.assert_close(teacher.previous[taken.ids], wanted)
    untouched = ~torch.isin(torch.arange(N), taken.ids)
    assert torch.equal(teacher.previous[untouched], before[untouched])
    assert int(untouched.sum()) == N - 6


@pytest.mark.parametrize("name", TEACHERS)
def test_it_learns_to_undo_labels_that_are_all_shifted_by_one(name):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, D, generator=generator)
    y = x[:, :C].argmax(1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(D, 16), nn.Tanh(), nn.Linear(16, C))
    made: dict[str, Callable[[], nn.Module]] = {
        "meta label correction": lambda: MetaLabelCorrection(net, classes=C, tap="1", width=16),
        "meta soft label corrector": lambda: MetaSoftLabelCorrector(
            torch.arange(200), 0.7 * F.one_hot(y, C) + 0.1
        ),
    }
    teacher = made[name]()
    learner = torch.optim.Adam(teacher.parameters(), lr=0.02)
    rule = SGD(net.parameters(), lr=0.3, momentum=0.9)
    tutor = Tutor(net, rule, teacher, learner, signal=Unrolled(1))
    for _ in range(150):
        ids, held = torch.randint(0, 150, (2, 32), generator=generator)
        held = 150 + held % 50
        tutor.step(Batch(x[ids], (y[ids] + 1) % C, ids), Batch(x[held], y[held], held))
    with torch.no_grad():
        assert float((net(x).argmax(1) == y).float().mean()) > 0.7


def test_what_does_not_fit_is_refused():
    p = torch.tensor([[0.5, 0.5]])
    with pytest.raises(UsageError, match="there are 2 ids for targets of shape"):
        MetaSoftLabelCorrector(torch.arange(2), p)
    with pytest.raises(UsageError, match="row 0 of previous is no distribution"):
        MetaSoftLabelCorrector(torch.arange(1), 2 * p)
    with pytest.raises(UsageError, match="ids -1 are negative"):
        MetaSoftLabelCorrector(torch.tensor([-1]), p)
    with pytest.raises(UsageError, match=r"gives 4 features at tap '1', but tap_width is 7"):
        MetaLabelCorrection(student(), classes=C, tap="1", tap_width=7)
    teacher, (prepared, seen) = corrector(), shown()
    with pytest.raises(UsageError, match="no earlier target is there for the ids 99"):
        teacher.row_losses(
            prepared._replace(ids=prepared.ids.where(prepared.ids != prepared.ids[2], 99)), seen
        )


def test_more_classes_than_it_was_made_for_are_refused():
    prepared, seen = shown()
    wrong: Tensor = prepared.targets.clone()
    wrong[1] = C
    for made in TEACHERS.values():
        with pytest.raises(UsageError, match=rf"label {C}"):
            made().row_losses(prepared._replace(targets=wrong), seen)

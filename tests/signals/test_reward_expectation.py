"""Theorem 1 for every teacher that samples: over all its actions, rewards give the gradient."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD

from tests.signals.sampling import CASES, JUDGES, RATE, C, D, Sampling, chance, hold
from tutelage.signals import GradientAlignment, Signal
from tutelage.tutor import Tutor

SIZE = 1e-4
"""of central differences"""


def student_of() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 3), nn.Tanh(), nn.Linear(3, C)).double()


def held_out_loss(student: nn.Module) -> float:
    return cross_entropy(student(JUDGES.inputs), JUDGES.targets).item()


def trained(case: Sampling, teacher: nn.Module, action: tuple[int, ...], **settings) -> float:
    """The held-out loss after one real step."""
    hold(teacher, action)
    student = student_of()
    optimizer = case.optimizer(student)
    kept = {"objective": case.objective, "total_steps": 1} | case.settings | settings
    Tutor(student, optimizer, teacher, **kept).step(case.batch(action), JUDGES)
    return held_out_loss(student)


def gradient_of(case: Sampling, teacher: nn.Module) -> Tensor:
    """Of the expected held-out loss, by central differences of real training."""
    losses = {a: trained(case, teacher, a) for a in case.actions}
    found = []
    for name, p in teacher.named_parameters():
        for number in range(p.numel()):
            at, slope = p.detach().view(-1)[number], 0.0
            before = at.clone()
            for sign in (1, -1):
                at.copy_(before + sign * SIZE)
                moved = name.startswith(case.direct or ("none",))
                for a in case.actions:
                    loss = trained(case, teacher, a) if moved else losses[a]
                    slope += sign * chance(teacher, a) * loss / (2 * SIZE)
            at.copy_(before)
            found.append(slope)
    return torch.tensor(found, dtype=torch.float64)


def estimated(case: Sampling, signal: Signal) -> Tensor:
    """The expectation of a signal's estimate over all actions."""
    total = torch.zeros((), dtype=torch.float64)
    for action in case.actions:
        teacher = case.teacher().double()
        before = parameters_to_vector(teacher.parameters()).detach()
        learner = SGD(teacher.parameters(), lr=1.0)
        own = chance(teacher, action)
        trained(case, teacher, action, signal=signal, teacher_optimizer=learner)
        after = parameters_to_vector(teacher.parameters()).detach()
        total = total + own * (before - after)
    return total


@pytest.mark.parametrize("name", CASES)
def test_the_expected_estimate_is_the_gradient_of_the_held_out_loss(name: str) -> None:
    case = CASES[name]
    teacher = case.teacher().double()
    want = gradient_of(case, teacher)
    found = estimated(case, GradientAlignment(judge="held-out", normalise="none"))
    torch.testing.assert_close(RATE * found, want, rtol=1e-3, atol=2e-3 * float(want.abs().max()))
    assert float(want.abs().max()) > 1e-3 * RATE

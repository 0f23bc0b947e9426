"""Update rules take the same steps as torch.optim, and can be differentiated."""

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, lr_scheduler

from tests.cases import OPTIMIZERS, build, stream
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.optim import rule_for, settings_of
from tutelage.functional.student import StudentView
from tutelage.functional.trees import reached_grad
from tutelage.types import StudentState

MORE = {
    "adam, one group without decay": lambda s: Adam(
        [
            {"params": list(s.parameters())[:1], "weight_decay": 0.1},
            {"params": list(s.parameters())[1:], "betas": (0.5, 0.9)},
        ],
        lr=0.02,
    ),
    "adamw amsgrad": lambda s: AdamW(s.parameters(), lr=0.02, amsgrad=True),
    "adam maximize": lambda s: Adam(s.parameters(), lr=0.02, maximize=True),
    "adamw maximize": lambda s: AdamW(s.parameters(), lr=0.02, maximize=True),
    "nesterov with decay": lambda s: SGD(
        s.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1
    ),
    "dampening, maximize": lambda s: SGD(
        s.parameters(), lr=0.1, momentum=0.9, dampening=0.5, maximize=True
    ),
}


@pytest.mark.parametrize("student", ["relu network", "frozen and unused", "tied"])
@pytest.mark.parametrize("name", OPTIMIZERS | MORE)
def test_rule_equals_torch_optim_over_20_steps_with_a_schedule(name: str, student: str) -> None:
    module = build(student)
    optimizer = (OPTIMIZERS | MORE)[name](module)
    view = StudentView(module, optimizer)
    schedule = lr_scheduler.StepLR(optimizer, 7, 0.3)
    state, rule = view.snapshot(), rule_for(optimizer)
    batches = stream()
    for _ in range(20):
        batch = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(batch.inputs), batch.targets).backward()
        theta = {k: p.requires_grad_() for k, p in state.params.items()}
        logits, _, _ = view.evaluate(theta, state.buffers, batch.inputs, ())
        loss = nn.functional.cross_entropy(logits, batch.targets)
        settings = settings_of(optimizer, view.names)
        grads = reached_grad(loss, theta)
        moved = {k: g for k, g in grads.items() if view.params[k].grad is not None}
        after = rule.update(state, moved, settings)
        state = StudentState(
            {k: p.detach() for k, p in after.params.items()},
            after.buffers,
            {s: {k: p.detach() for k, p in m.items()} for s, m in after.slots.items()},
        )
        optimizer.step()
        schedule.step()
    want = view.state()
    for key, value in want.params.items():
        torch.testing.assert_close(state.params[key], value, rtol=1e-12, atol=1e-12)
    assert state.slots.keys() == want.slots.keys()
    for slot, memory in want.slots.items():
        for key, value in memory.items():
            torch.testing.assert_close(state.slots[slot][key], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-15), (torch.float32, 1e-6)]
)
def test_adam_is_differentiable_where_a_gradient_is_exactly_zero(dtype, tolerance) -> None:
    # loss a * (x . theta) with x = (1, 0): the second coordinate's gradient is zero for every a
    theta = nn.Parameter(torch.tensor([1.0, 2.0], dtype=dtype))
    rule = rule_for(Adam([theta], lr=0.1))
    settings = settings_of(Adam([theta], lr=0.1), {theta: "t"})
    a = torch.tensor(0.5, dtype=dtype, requires_grad=True)
    start = StudentState({"t": theta.detach()}, {}, {})
    grads = {"t": a * torch.tensor([1.0, 0.0], dtype=dtype)}
    after = rule.update(start, grads, settings).params["t"]
    (derivative,) = torch.autograd.grad((after**2).sum(), a)
    assert abs(derivative.item() - (-7.2e-9)) < max(tolerance, 1e-10)
    assert after[1] == 2


def test_the_second_derivative_through_adam_at_zero_gradient_is_finite() -> None:
    theta = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimizer = Adam([theta], lr=0.1)
    start = StudentState({"t": theta.detach()}, {}, {})
    grads = {"t": torch.zeros(3, dtype=torch.float64, requires_grad=True)}
    rule, settings = rule_for(optimizer), settings_of(optimizer, {theta: "t"})
    one = rule.update(start, grads, settings)
    two = rule.update(one, grads, settings)
    (back,) = torch.autograd.grad(two.params["t"].sum(), grads["t"])
    # each step at v = 0 is lr * g / eps up to bias corrections: large, equal, finite
    assert back.isfinite().all()
    assert (back < 0).all()


def test_an_optimiser_without_a_rule_is_refused_by_name() -> None:
    module = build("linear")
    with pytest.raises(UnsupportedStudentError, match=r"Adagrad.*SGD, Adam or AdamW"):
        rule_for(Adagrad(module.parameters()))


def test_an_optimiser_of_somebody_elses_parameters_is_refused() -> None:
    module, other = build("linear"), nn.Parameter(torch.zeros(7))
    optimizer = SGD([*module.parameters(), other], lr=0.1)
    with pytest.raises(UnsupportedStudentError, match=r"shape \(7,\)"):
        settings_of(optimizer, StudentView(module, optimizer).names)

"""Every student of the shared table, every way of taking the dot products."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.cases import STUDENTS, B, build, stream
from tutelage.per_example import Recorder
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.per_example.coupling import couples_rows
from tutelage.types import Batch, Params


def frozen_statistics(student: nn.Module) -> nn.Module:
    for module in student.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    return student


def direction_for(student: nn.Module) -> Params:
    generator = torch.Generator().manual_seed(7)
    return {
        name: torch.randn(p.shape, generator=generator, dtype=p.dtype)
        for name, p in student.named_parameters()
    }


def one_by_one(student: nn.Module, batch: Batch, g: Params) -> Tensor:
    """A gradient per example, one after the other."""
    params = {k: p for k, p in student.named_parameters() if p.requires_grad}
    found = []
    for row in range(B):
        x, y = batch.inputs[row : row + 1], batch.targets[row : row + 1]
        loss = cross_entropy(student(x), y)
        grads = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        parts = [(d * g[k]).sum() for k, d in zip(params, grads, strict=True) if d is not None]
        found.append(torch.stack(parts).sum())
    return torch.stack(found)


def without_dropout(name: str) -> nn.Module:
    student = frozen_statistics(build(name))
    for module in student.modules():
        if isinstance(module, nn.Dropout | nn.MultiheadAttention):
            module.eval()
    return student


@pytest.mark.parametrize("method", ["auto", "ghost", "forward"])
@pytest.mark.parametrize("name", STUDENTS)
def test_exact_methods_equal_a_gradient_per_example(name: str, method) -> None:
    student, batch = without_dropout(name), next(stream())
    g = direction_for(student)
    expected = one_by_one(student, batch, g)
    found = gradient_dots(student, batch, g, method=method)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in STUDENTS if name != "relu network"])
def test_differences_of_losses_come_close_on_smooth_students(name: str) -> None:
    student, batch = without_dropout(name), next(stream())
    g = direction_for(student)
    expected = one_by_one(student, batch, g)
    found = gradient_dots(student, batch, g, method="difference")
    assert float((found - expected).norm() / expected.norm()) < 1e-4


@pytest.mark.parametrize("name", STUDENTS)
def test_methods_agree_on_the_same_dropout(name: str) -> None:
    student, batch = frozen_statistics(build(name)), next(stream())._replace(seed=11)
    g = direction_for(student)
    ghost = gradient_dots(student, batch, g, method="ghost")
    forward = gradient_dots(student, batch, g, method="forward")
    torch.testing.assert_close(ghost, forward, rtol=1e-9, atol=1e-12)


def test_with_batch_statistics_rows_sum_to_the_whole_gradient() -> None:
    student, batch = build("batch norm"), next(stream())
    g = direction_for(student)
    assert couples_rows(student)
    loss = cross_entropy(student(batch.inputs), batch.targets, reduction="sum")
    grads = torch.autograd.grad(loss, list(student.parameters()))
    whole = sum((d * v).sum() for d, v in zip(grads, g.values(), strict=True))
    ghost = gradient_dots(student, batch, g, method="ghost")
    forward = gradient_dots(student, batch, g, method="forward")
    torch.testing.assert_close(ghost.sum(), whole, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(forward.sum(), whole, rtol=1e-10, atol=1e-12)
    assert float((ghost - forward).norm() / forward.norm()) > 1e-3  # another quantity
    auto = gradient_dots(student, batch, g)
    torch.testing.assert_close(auto, forward, rtol=0, atol=0)


@pytest.mark.parametrize("name", [n for n in STUDENTS if n != "batch norm"])
def test_a_recorded_step_gives_dot_products_after_the_optimiser_moved_on(name: str) -> None:
    student, batch = without_dropout(name), next(stream())
    g = direction_for(student)
    expected = one_by_one(student, batch, g)
    weights = torch.linspace(0.1, 2.0, B, dtype=torch.float64)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    recorder, recordings = Recorder(student), []
    for _ in range(2):  # the second time, where rows lie is known
        optimizer.zero_grad()
        with recorder.record(B) as recording:
            losses = cross_entropy(student(batch.inputs), batch.targets, reduction="none")
            (weights * losses).sum().backward()
        recordings.append(recording)
    optimizer.step()
    for recording in recordings:
        found = recording.dots(g, weights)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)

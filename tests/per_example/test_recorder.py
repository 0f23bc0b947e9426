"""The recorder in a stranger's loop: modes, types, wrappers, mistakes, memory."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.per_example.oracle import (
    F64,
    direction_for,
    losses_of,
    network,
    numbers,
    one_by_one,
    recorded,
    spoken,
    tokens,
)
from tutelage.per_example import Recorder
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.per_example.coupling import couples_rows
from tutelage.types import Batch


def hooks_of(student: nn.Module) -> int:
    modules = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in student.modules())
    tensors = sum(len(p._backward_hooks or ()) for p in student.parameters())
    return modules + tensors


def test_an_exception_leaves_no_hook_behind() -> None:
    student, x = network(), numbers(4, 72)
    recorder = Recorder(student)
    for wrong in (x[:, :5], x.float()):
        with pytest.raises(RuntimeError), recorder.record(4):
            student(wrong)
    assert hooks_of(student) == 0
    g = direction_for(student)
    found = recorded(student, x, g, recorder=recorder)
    torch.testing.assert_close(found, one_by_one(student, x, g))
    assert hooks_of(student) == 0


def test_memory_does_not_grow_and_inputs_are_let_go() -> None:
    student, g = network(), direction_for(network())
    recorder, counts, refs = Recorder(student), [], []
    for number in range(30):
        x = numbers(4, 72, seed=number)
        refs.append(weakref.ref(x))
        recording = spoken(student, x, recorder)
        recording.dots(g, recording.ones())
        del x, recording
        student.zero_grad()
        gc.collect()
        counts.append(sum(issubclass(type(o), Tensor) for o in gc.get_objects()))
    assert counts[4] == counts[-1]
    assert not any(ref() is not None for ref in refs)


def test_recurrent_states_handed_in_do_not_keep_the_graph() -> None:
    layer = nn.LSTM(3, 3, batch_first=True).to(F64)
    source = numbers(1, 4, 3).requires_grad_()
    state, held = (source.sin(), source.cos()), weakref.ref(source)
    del source
    with Recorder(layer).record(4) as recording:
        losses_of(layer(numbers(4, 5, 3), state)[0]).sum().backward()
    del state
    gc.collect()
    assert held() is None
    assert recording.dots(direction_for(layer), recording.ones()).shape == (4,)


def test_the_probe_touches_neither_random_numbers_nor_buffers_nor_modes() -> None:
    norm, x, runs = nn.BatchNorm1d(4), numbers(4, 4).float(), []
    student = nn.Sequential(nn.Linear(4, 4), norm, nn.Dropout(0.5), nn.Linear(4, 3))
    for recording in (False, True):
        torch.manual_seed(3)
        norm.reset_running_stats()
        if recording:
            spoken(student, x, Recorder(student))
        else:
            losses_of(student(x)).sum().backward()
        buffers = {k: b.clone() for k, b in student.named_buffers()}
        grads = [p.grad for p in student.parameters() if p.grad is not None]
        runs.append((buffers, torch.rand(3), grads))
        student.zero_grad()
    torch.testing.assert_close(runs[0], runs[1], rtol=0, atol=0)
    assert all(m.training for m in student.modules())


def test_changing_the_mode_after_the_pass_changes_nothing() -> None:
    torch.manual_seed(0)
    student = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.3, batch_first=True).to(F64)
    batch = Batch(numbers(5, 6, 4), torch.zeros(5, dtype=torch.long), torch.arange(5), seed=9)
    g = direction_for(student)
    expected = gradient_dots(
        student, batch, g, method="forward", objective=lambda out, _: losses_of(out)
    )
    recorder = Recorder(student)
    for number in range(2):
        torch.manual_seed(9)
        recording = spoken(student, batch.inputs, recorder)
        student.eval()
        torch.manual_seed(number)
        found = recording.dots(g, recording.ones())
        assert not any(m.training for m in student.modules())
        student.train()
        torch.testing.assert_close(found, expected)


def test_recurrent_dropout_is_the_recorded_one() -> None:
    torch.manual_seed(0)
    layer = nn.GRU(3, 4, num_layers=3, dropout=0.5, bidirectional=True, batch_first=True).to(
        F64
    )

    class Outputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)[0]

    student = Outputs()
    g = direction_for(student)
    batch = Batch(numbers(5, 6, 3), torch.zeros(5, dtype=torch.long), torch.arange(5), seed=4)
    ghost, forward = (
        gradient_dots(student, batch, g, method=m, objective=lambda out, _: losses_of(out))
        for m in ("ghost", "forward")
    )
    torch.testing.assert_close(ghost, forward)


def test_batch_statistics_are_found_by_the_probe_where_sizes_agree() -> None:
    torch.manual_seed(0)
    student = nn.Sequential(
        nn.Unflatten(1, (4, 4)), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 4)
    ).to(F64)
    x, g = numbers(4, 16), direction_for(student)
    assert couples_rows(student)
    loss = losses_of(student(x))
    deltas = torch.autograd.grad(loss.sum(), list(student.parameters()))
    whole = sum((d * v).sum() for d, v in zip(deltas, g.values(), strict=True))
    recording = spoken(student, x, Recorder(student))
    torch.testing.assert_close(recording.dots(g, recording.ones()).sum(), whole)
    assert {out.row_dim for call in recording.calls for out in call.outputs} == {0}


@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 3), (4, 4, 4, 4)])
def test_shares_under_batch_statistics_are_those_of_each_rows_path(shape) -> None:
    kind = nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d
    layer, x = kind(4).to(F64), numbers(*shape)
    g = direction_for(layer)
    recording = spoken(layer, x, Recorder(layer))
    grads = {k: p.grad for k, p in layer.named_parameters() if p.grad is not None}
    found = recording.dots(g, recording.ones())
    torch.testing.assert_close(found.sum(), sum((grads[k] * g[k]).sum() for k in g))
    plain = nn.functional.batch_norm(x, None, None, training=True)
    scale, shift = (  # a copy of scale and shift for every row
        torch.full((len(x), 4, *[1] * (x.ndim - 2)), start, dtype=F64, requires_grad=True)
        for start in (1.0, 0.0)
    )
    deltas = torch.autograd.grad(losses_of(plain * scale + shift).sum(), [scale, shift])
    expected = sum(d.flatten(1) @ g[k] for d, k in zip(deltas, ("weight", "bias"), strict=True))
    torch.testing.assert_close(found, expected)


def test_frequencies_scale_as_the_gradient_does() -> None:
    student, x = nn.Embedding(6, 3, scale_grad_by_freq=True).to(F64), tokens(4, 5)
    g = direction_for(student)
    recording = spoken(student, x, Recorder(student))
    found = recording.dots(g, recording.ones())
    assert student.weight.grad is not None
    torch.testing.assert_close(found.sum(), (student.weight.grad * g["weight"]).sum())
    assert couples_rows(student)


@pytest.mark.parametrize("times", [1, 2])
def test_autocast_comes_close(times: int) -> None:
    torch.manual_seed(0)
    parts = [nn.Linear(8, 6), nn.LayerNorm(6), nn.GRU(6, 6, batch_first=True)]

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(parts)

        def forward(self, x: Tensor) -> Tensor:
            return parts[2](parts[1](parts[0](x)).tanh())[0]

    whole = Whole()
    x, g = numbers(5, 4, 8).float(), direction_for(whole)
    expected = one_by_one(whole, x, g)
    recorder = Recorder(whole)
    for _ in range(times):
        with torch.autocast("cpu", torch.bfloat16):
            recording = spoken(whole, x, recorder)
            inside = recording.dots(g, recording.ones())
        found = recording.dots(g, recording.ones())
        assert found.dtype == torch.float32
        for got in (found, inside):
            assert float((got - expected).norm() / expected.norm()) < 5e-2


def test_short_floats_in_store_cost_less_than_a_thousandth() -> None:
    student, precise = network(torch.float32), network()
    x = numbers(8, 72).float()
    losses_of(precise(numbers(8, 72, seed=1))).sum().backward()
    g = {k: p.grad for k, p in precise.named_parameters() if p.grad is not None}
    exact = one_by_one(precise, x.double(), g)
    found = recorded(student, x, g, recorder=Recorder(student, store=torch.bfloat16))
    assert float((found - exact).norm() / exact.norm()) < 1e-3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("place", ["around", "in place", "known to the loop alone"])
@pytest.mark.parametrize("before", [True, False])
def test_compiled_students_lose_no_hook(backend: str, place: str, before: bool) -> None:
    torch._dynamo.reset()
    student, x = network(), numbers(4, 72)
    g = direction_for(student)
    expected = one_by_one(student, x, g)
    if place == "in place":
        student.compile(backend=backend)
        ran: Any = student
    else:
        ran = torch.compile(student, backend=backend)
    if before:
        ran(x)
    recorder = Recorder(ran if place == "around" else student)
    found = recorded(ran, x, g, recorder=recorder) if place != "around" else None
    if found is None:
        recording = spoken(ran, x, recorder)
        found = recording.dots(g, recording.ones())
    torch.testing.assert_close(found, expected)

"""What the recorder is asked for: scales, types, several passes, and mistakes."""

import pytest
import torch
from torch import nn

from tests.per_example.oracle import (
    F64,
    direction_for,
    losses_of,
    network,
    numbers,
    one_by_one,
    spoken,
)
from tutelage.errors import UnsupportedStudentError, UsageError
from tutelage.per_example import Recorder
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.types import Batch


def test_directions_may_miss_names_and_have_another_type() -> None:
    student, x = network(torch.float32), numbers(4, 72).float()
    g = {k: v for k, v in direction_for(student).items() if not k.startswith("4.")}
    expected = one_by_one(student, x, g)
    recording = spoken(student, x, Recorder(student))
    for kind in (torch.float64, torch.float32):
        found = recording.dots({k: v.to(kind) for k, v in g.items()}, recording.ones())
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    nothing = recording.dots({}, recording.ones())
    torch.testing.assert_close(nothing, torch.zeros(4))
    graph = {k: v.requires_grad_() for k, v in g.items()}
    assert not recording.dots(graph, recording.ones().requires_grad_()).requires_grad


def test_mistakes_are_told_and_never_give_numbers() -> None:
    student, x = network(), numbers(4, 72)
    recorder = Recorder(student)
    recording = spoken(student, x, recorder)
    g, ones = direction_for(student), recording.ones()
    with pytest.raises(ValueError, match="weight zero"):
        recording.dots(g, torch.tensor([1.0, 0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"shape \[\]"):
        recording.dots(g, torch.tensor(1.0))
    with pytest.raises(UsageError, match=r"no parameter 'module\.1\.weight'"):
        recording.dots({f"module.{k}": v for k, v in g.items()}, ones)
    with pytest.raises(UsageError, match="shape"):
        recording.dots(g | {"1.weight": g["1.bias"]}, ones)
    with recorder.record(4) as late:
        loss = losses_of(student(x)).sum()
    loss.backward()
    with pytest.raises(UsageError, match="inside of the block"):
        late.dots(g, ones)
    with recorder.record(5) as wrong:
        losses_of(student(x)).sum().backward()
    with pytest.raises(UnsupportedStudentError, match="5 recorded rows"):
        wrong.dots(g, torch.ones(5))
    with pytest.raises(UsageError, match="no parameter"):
        gradient_dots(student, Batch(x, torch.zeros(4), torch.arange(4)), {"nowhere": ones})


def test_overwritten_inputs_are_told() -> None:
    student, x = nn.Linear(72, 300).to(F64), numbers(4, 72)
    recording = spoken(student, x, Recorder(student))
    x.copy_(numbers(4, 72, seed=1))
    with pytest.raises(RuntimeError, match="overwritten"):
        recording.dots(direction_for(student), recording.ones())


def test_two_passes_of_the_same_rows_add_up() -> None:
    student, x, again = network(), numbers(4, 72), numbers(4, 72, seed=8)
    g = direction_for(student)
    expected = 3 * one_by_one(student, x, g) + one_by_one(student, again, g)
    recorder = Recorder(student)
    for _ in range(2):
        with recorder.record(4) as recording:
            (3 * losses_of(student(x)).sum()).backward()
            losses_of(student(again)).sum().backward()
        torch.testing.assert_close(recording.dots(g, recording.ones()), expected)


def test_a_graph_used_twice_is_told() -> None:
    student, x = network(), numbers(4, 72)
    with Recorder(student).record(4) as recording:
        losses = losses_of(student(x)).sum()
        losses.backward(retain_graph=True)
        losses.backward()
    with pytest.raises(RuntimeError, match="one backward pass"):
        recording.dots(direction_for(student), recording.ones())


def test_a_mean_has_the_scale_of_a_sum() -> None:
    x = torch.tensor([[1.0], [2.0], [3.0]])
    student = nn.Linear(1, 1, bias=False)
    nn.init.ones_(student.weight)
    with Recorder(student).record(3) as recording:
        (student(x).squeeze(1) ** 2 / 2).mean().backward()
    found = recording.dots({"weight": torch.ones(1, 1)}, torch.full([3], 1 / 3))
    torch.testing.assert_close(found, torch.tensor([1.0, 4.0, 9.0]))


def test_a_tied_weight_has_one_gradient() -> None:
    table = nn.Embedding(3, 2)
    head = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        table.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    head.weight = table.weight
    student = nn.Sequential(table, head)
    batch = Batch(torch.tensor([0, 2]), torch.tensor([1, 0]), torch.arange(2))
    first = [[1.2670, -0.4223], [-0.8446, 0.0], [0.4223, 0.0]]
    second = [[-0.7881, -0.7881], [0.2119, 0.2119], [0.3642, 1.3642]]
    entries = torch.eye(6).view(6, 3, 2)
    found = torch.stack(
        [gradient_dots(student, batch, {"0.weight": e}, method="ghost") for e in entries], 1
    )
    torch.testing.assert_close(
        found.view(2, 3, 2), torch.tensor([first, second]), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("method", ["ghost", "forward"])
def test_a_chosen_layer_counts_a_weight_that_it_shares_in_all_uses(method) -> None:
    student = nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 3))
    student[1].weight = student[0].weight
    batch = Batch(torch.tensor([0, 2]), torch.tensor([1, 0]), torch.arange(2))
    direction = {"0.weight": torch.randn(3, 2), "1.bias": torch.randn(3)}
    found = gradient_dots(student, batch, direction, method=method, layers=["1"])
    torch.testing.assert_close(found, gradient_dots(student, batch, direction, method=method))

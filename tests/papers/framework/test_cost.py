"""Time and memory are those of what was asked for."""

import pytest
import torch

from papers.framework.cost import interleaved, peak_bytes, seconds

CPU = torch.device("cpu")
MIB = 2**20


def held(*sizes: int):
    """What holds a tensor, and tensors of these sizes for a while."""
    kept = torch.zeros(MIB, dtype=torch.uint8)

    def once() -> int:
        return sum(len(torch.zeros(size * MIB, dtype=torch.uint8)) for size in sizes) + len(
            kept
        )

    return once


def test_the_peak_is_what_is_held_at_once_and_not_what_was_let_go() -> None:
    assert peak_bytes(lambda: held(4), CPU) == 5 * MIB
    assert peak_bytes(lambda: held(4, 4, 2), CPU) == 5 * MIB


def test_the_peak_leaves_out_what_was_there_before() -> None:
    before = torch.zeros(8 * MIB, dtype=torch.uint8)
    assert peak_bytes(lambda: held(4), CPU) == 5 * MIB
    assert len(before) == 8 * MIB


def test_the_peak_counts_what_a_backward_pass_keeps() -> None:
    x = torch.ones(MIB, requires_grad=True)

    def build():
        return lambda: torch.autograd.grad(x.exp().exp().sum(), x)

    assert peak_bytes(build, CPU) >= 3 * 4 * MIB


def test_more_work_takes_more_time() -> None:
    x = torch.randn(200, 200)

    def work(times: int):
        return lambda: [x @ x for _ in range(times)]

    assert seconds(work(200), CPU) > seconds(work(2), CPU)
    times = interleaved({"little": work(2), "much": work(200)}, 3, CPU)
    assert all(a < b for a, b in zip(times["little"], times["much"], strict=True))


@pytest.mark.parametrize("rounds", [1, 4])
def test_everything_has_its_turn_in_every_round(rounds) -> None:
    order: list[str] = []
    ready = {name: lambda name=name: order.append(name) for name in "ab"}
    times = interleaved(ready, rounds, CPU)
    assert [len(t) for t in times.values()] == [rounds, rounds]
    assert order == ["b", "a", "a", "b", "b", "a", "a", "b"][: 2 * rounds]

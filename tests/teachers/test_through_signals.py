"""Teachers that prepare learn the same through every exact signal, one step or two back."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.teachers.finite import train
from tutelage.losses.objectives import Auxiliary, cross_entropy
from tutelage.models import MaskUNet
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.signals.products import DoubleBackward, ForwardOverReverse
from tutelage.teachers import (
    AttentionMask,
    AuxiliaryTargets,
    Blending,
    CombinedTeacher,
    Curriculum,
    OutOfFoldTargets,
    PermutationControl,
    SupportWeights,
)
from tutelage.types import Batch

SIZE, C = 4, 3


class TwoHeads(nn.Module):
    """Logits and an auxiliary prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(SIZE**2, 6)
        self.head, self.second = nn.Linear(6, C), nn.Linear(6, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x.flatten(1)).tanh()
        return self.head(hidden), self.second(hidden)


def student() -> nn.Module:
    torch.manual_seed(0)
    return TwoHeads().double()


def batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(5, 1, SIZE, SIZE, generator=generator, dtype=torch.float64)
    return Batch(x, torch.randint(0, C, (5,), generator=generator), torch.arange(5))


def flat(outputs: int, channels: int = 1) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * SIZE**2, outputs))


P = torch.randn(5, C, generator=torch.Generator().manual_seed(3)).softmax(1)
GIVEN = torch.tensor([0, 1, 2, 0, 1])


def stirred(teacher: nn.Module) -> nn.Module:
    for p in teacher.parameters():  # a last layer of zeros would hide the ones before it
        nn.init.normal_(p, std=0.3)
    return teacher


TEACHERS: dict[str, Callable[[], nn.Module]] = {
    "out-of-fold targets": lambda: stirred(OutOfFoldTargets(torch.arange(5), P, GIVEN)),
    "blending": lambda: Blending(C),
    "mask": lambda: AttentionMask(MaskUNet(1, width=4, levels=1), sigma=1.5),
    "permuted mask": lambda: PermutationControl(
        AttentionMask(MaskUNet(1, width=4, levels=1), sigma=1.5)
    ),
    "auxiliary targets": lambda: AuxiliaryTargets(flat(1)),
    "support weights": lambda: SupportWeights(flat(6, 2), features=6, classes=C, width=4),
    "blending and curriculum": lambda: CombinedTeacher(Blending(C), Curriculum(flat(1, 2))),
}
ONE: dict[str, Signal] = {
    "lookahead": Lookahead(),
    "lookahead, double backward": Lookahead(DoubleBackward()),
    "lookahead, forward over reverse": Lookahead(ForwardOverReverse()),
}
TWO: dict[str, Signal] = {"reversible": Reversible(2), "replayed": Replayed(2)}


def gradients(name: str, signal: Signal) -> dict[str, Tensor]:
    torch.manual_seed(1)
    teacher = TEACHERS[name]().double()
    batches = [batch(1), batch(2)][: signal.steps]
    objective = Auxiliary(cross_entropy)
    estimate, _ = train(student, teacher, batches, batch(9), signal, objective)
    assert estimate is not None
    return dict(estimate.grad)


@pytest.mark.parametrize("how", [*ONE, *TWO])
@pytest.mark.parametrize("name", TEACHERS)
def test_every_exact_signal_agrees_with_unrolling(name, how) -> None:
    signal = (ONE | TWO)[how]
    wanted = gradients(name, Unrolled(signal.steps))
    got = gradients(name, signal)
    assert got.keys() == wanted.keys()
    assert any(grad.any() for grad in wanted.values())
    for key, grad in wanted.items():
        torch.testing.assert_close(got[key], grad, rtol=1e-6, atol=1e-11)

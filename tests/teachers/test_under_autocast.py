"""Under autocast teachers lose what their networks round, and nothing more."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tutelage.functional.replay_context import replay_context
from tutelage.losses.objectives import Auxiliary, cross_entropy
from tutelage.signals import Unrolled
from tutelage.teachers import (
    Aligned,
    AttentionMask,
    AuxiliaryTargets,
    Blending,
    DynamicLoss,
    KeepOrDrop,
    KeepProbability,
    MentorNetDD,
    MentorNetPD,
    SelfPaced,
    SupportWeights,
)
from tutelage.teachers.attention_mask import expected_place
from tutelage.teachers.hook_calls import prepare
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, Progress, as_prepared

SIZE, C = 6, 3


def batch(seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(7, 1, SIZE, SIZE, generator=generator)
    return Batch(x, torch.randint(0, C, (7,), generator=generator), torch.arange(7), seed)


def half(seen: Batch) -> Batch:
    return seen._replace(autocast=torch.bfloat16)


class TwoHeads(nn.Module):
    """Logits and an auxiliary prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(SIZE**2, 6)
        self.head, self.second = nn.Linear(6, C), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x.flatten(1)).tanh()
        return self.head(hidden), self.second(hidden)


def test_blending_is_the_same() -> None:
    torch.manual_seed(0)
    teacher, prepared = Blending(C), []
    nn.init.normal_(teacher.phi)
    for seen in (batch(), half(batch())):
        with replay_context(seen, 1):
            prepared.append(prepare(teacher, {}, seen))
    assert torch.equal(prepared[0].inputs, prepared[1].inputs)
    assert torch.equal(prepared[0].targets, prepared[1].targets)


def test_the_centre_of_a_mask_is_not_rounded_to_whole_pixels() -> None:
    logits = torch.full((1, 224, 224), -torch.inf)
    logits[0, 201, 203] = 0.0
    with torch.autocast("cpu", torch.bfloat16):
        centre, _ = expected_place(logits.bfloat16())
    torch.testing.assert_close(centre, torch.tensor([[201.0, 203.0]]))


def test_the_mean_of_support_weights_stays_exact() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.Flatten())
    teacher = SupportWeights(network, features=2 * SIZE**2, classes=C, width=4)
    losses = torch.zeros(7)
    with torch.autocast("cpu", torch.bfloat16):
        seen = Observation(losses, losses.unsqueeze(1), {}, Progress(0.4))
        weights = teacher.weigh(as_prepared(batch()), seen)
    assert weights.dtype == torch.float32
    assert weights.mean().item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", ["blending", "mask", "auxiliary targets"])
def test_every_teacher_that_prepares_learns_under_autocast(name) -> None:
    torch.manual_seed(0)
    student = TwoHeads()
    teacher = {
        "blending": lambda: Blending(C),
        "mask": lambda: AttentionMask(nn.Conv2d(1, 1, 3, padding=1, bias=False), sigma=2.0),
        "auxiliary targets": lambda: AuxiliaryTargets(
            nn.Sequential(nn.Flatten(), nn.Linear(SIZE**2, 2))
        ),
    }[name]()
    tutor = Tutor(
        student,
        torch.optim.SGD(student.parameters(), lr=0.1),
        teacher,
        torch.optim.SGD(teacher.parameters(), lr=1.0),
        signal=Unrolled(1),
        objective=Auxiliary(cross_entropy),
    )
    before = {k: p.detach().clone() for k, p in teacher.named_parameters()}
    with torch.autocast("cpu", torch.bfloat16):
        record = tutor.step(batch(1), batch(9))
    assert record.losses.dtype == torch.float32
    assert tutor.skipped_teacher_steps == 0
    for key, p in teacher.named_parameters():
        assert p.isfinite().all()
        assert not torch.equal(p, before[key]), key


WEIGHING: dict[str, Callable[[], nn.Module]] = {
    "dynamic loss": lambda: DynamicLoss(C),
    "MentorNet DD": lambda: MentorNetDD(C, burn_in=0.0),
    "MentorNet PD": lambda: MentorNetPD(burn_in=0.0, width=9.0),
    "self-paced": SelfPaced,
    "keep or drop": lambda: KeepOrDrop(KeepProbability(C)),
    "aligned": Aligned,
}


@pytest.mark.parametrize("name", WEIGHING)
def test_every_teacher_that_weighs_comes_close_under_autocast(name) -> None:
    records = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        student = nn.Sequential(nn.Flatten(), nn.Linear(SIZE**2, C))
        rule = torch.optim.SGD(student.parameters(), lr=0.1)
        tutor = Tutor(student, rule, WEIGHING[name](), total_steps=10, seed=1)
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            records.append(tutor.step(batch(1), batch(2)))
        assert records[-1].loss.dtype == torch.float32
    plain, cast = records
    # bfloat16 keeps 8 bits; what is kept or dropped does not change for these numbers
    torch.testing.assert_close(cast.loss, plain.loss, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(cast.weights.float(), plain.weights, rtol=0.1, atol=2e-2)


def test_a_dynamic_loss_is_taken_in_full_precision() -> None:
    torch.manual_seed(0)
    teacher, logits = DynamicLoss(C), torch.randn(7, C)
    prepared, seen = as_prepared(batch()), Observation(logits[:, 0], logits, {}, Progress(0.4))
    with torch.autocast("cpu", torch.bfloat16):
        cast = teacher.row_losses(prepared, seen)
    # at first W and b are 0 and 1, which nothing rounds
    torch.testing.assert_close(cast, teacher.row_losses(prepared, seen), rtol=1e-6, atol=1e-7)

"""Which teachers learn by which signals, found by trying: the grid of ``docs/choose.md``."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from tutelage.augment import crop_and_flip
from tutelage.losses.objectives import Auxiliary, Objective, cross_entropy
from tutelage.models import MaskUNet, TwoHeads
from tutelage.signals import (
    GradientAlignment,
    Implicit,
    Lookahead,
    Neumann,
    NextStepLoss,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
)
from tutelage.teachers import (
    Aligned,
    AttentionMask,
    AuxiliaryTargets,
    Blending,
    CombinedTeacher,
    Copies,
    Curriculum,
    DynamicLoss,
    InternalState,
    KeepOrDrop,
    KeepProbability,
    LearnedAugmentation,
    LossWeigher,
    MentorNetDD,
    MetaLabelCorrection,
    MetaSoftLabelCorrector,
    OutOfFoldTargets,
    SplitSampler,
    SupportWeights,
)
from tutelage.training.loops import episodic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

C, SIZE, BATCH = 3, 8, 12
LEARNS, LEARNS_NOTHING, REFUSED = "yes", "nothing", "no"
"""every parameter moved; it runs and none did, or only some; an error says so"""


def flat(outputs: int, channels: int = 1) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * SIZE**2, outputs))


def features() -> nn.Module:
    return nn.Sequential(flat(6, 2), nn.SiLU())


TEACHERS: Mapping[str, Callable[[nn.Module], nn.Module]] = {
    "InternalState": lambda s: InternalState(s, classes=C, label=True, surface=("loss",)),
    "LossWeigher": lambda _: LossWeigher(width=8),
    "Curriculum": lambda _: Curriculum(flat(1, 2)),
    "SupportWeights": lambda _: SupportWeights(features(), features=6, classes=C, width=4),
    "MentorNetDD": lambda _: MentorNetDD(C, burn_in=0.0),
    "KeepProbability": lambda _: KeepProbability(C),
    "DynamicLoss": lambda _: DynamicLoss(C),
    "MetaLabelCorrection": lambda s: MetaLabelCorrection(
        s, classes=C, tap="trunk.2", tap_width=8, embedding=3, width=4
    ),
    "MetaSoftLabelCorrector": lambda _: MetaSoftLabelCorrector(
        torch.arange(60), torch.full((60, C), 1 / C), width=5
    ),
    "OutOfFoldTargets": lambda _: OutOfFoldTargets(
        torch.arange(60), torch.randn(60, C).softmax(1), torch.arange(60) % C, width=5
    ),
    "Blending": lambda _: Blending(C),
    "AttentionMask": lambda _: AttentionMask(MaskUNet(1, width=4, levels=1), sigma=2.0),
    "AuxiliaryTargets": lambda _: AuxiliaryTargets(flat(2)),
    "KeepOrDrop": lambda _: KeepOrDrop(KeepProbability(C)),
    "SplitSampler": lambda _: SplitSampler([30, 30]),
    "LearnedAugmentation": lambda _: LearnedAugmentation("standard", most=2),
    "CombinedTeacher(Blending, LossWeigher)": lambda _: CombinedTeacher(
        Blending(C), LossWeigher(width=8)
    ),
    "CombinedTeacher(Copies, LossWeigher)": lambda _: CombinedTeacher(
        Copies(2, partial(crop_and_flip, pad=1), include_original=True), LossWeigher(width=8)
    ),
    "Aligned": lambda _: Aligned(),
}
SIGNALS: Mapping[str, Signal | None] = {
    "Lookahead": Lookahead(),
    "Unrolled": Unrolled(2),
    "Replayed": Replayed(2),
    "Reversible": Reversible(2),
    "Implicit": Implicit(Neumann(terms=1, scale=0.1)),
    "GradientAlignment": GradientAlignment(evaluate_on="held-out"),
    "NextStepLoss": NextStepLoss(evaluate_on="held-out"),
    "whole runs": None,
}
STEPS = 4


def fresh() -> tuple[nn.Module, SGD]:
    torch.manual_seed(0)
    trunk = nn.Sequential(nn.Flatten(), nn.Linear(SIZE**2, 8), nn.SiLU())
    student = TwoHeads(trunk, features=8, outputs=C, auxiliary=2)
    return student, SGD(student.parameters(), lr=0.1, momentum=0.9)


def batch(seed: int) -> Batch:
    random = torch.Generator().manual_seed(seed)
    inputs = torch.rand(BATCH, 1, SIZE, SIZE, generator=random)
    ids = torch.randint(60, (BATCH,), generator=random)
    return Batch(inputs, torch.randint(C, (BATCH,), generator=random), ids)


def outcome(teacher: str, signal: str) -> str:
    """What becomes of a teacher under a signal: one of the three words above."""
    try:
        moved = _moved(teacher, signal)
    except ValueError:
        return REFUSED
    return LEARNS if moved else LEARNS_NOTHING


def _moved(name: str, how: str) -> bool:
    student, optimizer = fresh()
    torch.manual_seed(1)
    teacher = TEACHERS[name](student)
    parameters = list(teacher.parameters())
    for p in parameters:
        nn.init.normal_(p, std=0.3)  # a last layer of zeros would hide the ones before it
    learner = Adam(parameters or [nn.Parameter(torch.zeros(1))], lr=1e-2)
    before = [p.detach().clone() for p in parameters]
    settings: dict[str, Any] = {"objective": Auxiliary(cross_entropy)}
    signal = SIGNALS[how]
    if signal is None:
        _whole_runs(teacher, learner, settings["objective"])
    else:
        tutor = Tutor(
            student, optimizer, teacher, learner, signal=signal, teacher_every=2, aggregate=2,
            total_steps=STEPS, **settings,
        )  # fmt: skip
        for step in range(STEPS):
            tutor.step(batch(step), batch(100 + step))
    return all(_differs(p, b) for p, b in zip(parameters, before, strict=True))


def _whole_runs(teacher: nn.Module, learner: Adam, objective: Objective) -> None:
    runs = episodic(
        lambda _: fresh(),
        teacher,
        learner,
        lambda number: [batch(10 * number + step) for step in range(2)],
        lambda number: batch(1000 + number),
        signal=Unrolled(2),
        objective=objective,
    )
    list(islice(runs, 2))


def _differs(p: Tensor, before: Tensor) -> bool:
    return bool(p.isfinite().all()) and not torch.equal(p, before)


def table() -> str:
    """The grid, a teacher a row."""
    lines = [f"| | {' | '.join(SIGNALS)} |", "|---" * (len(SIGNALS) + 1) + "|"]
    lines += [
        f"| `{teacher}` | {' | '.join(outcome(teacher, signal) for signal in SIGNALS)} |"
        for teacher in TEACHERS
    ]
    return "\n".join(lines)

"""One row per teacher: each learns, is stored and loaded, and bears odd batches."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from tutelage.augment import crop_and_flip
from tutelage.functional.trees import leaves
from tutelage.losses.objectives import Auxiliary, Objective, cross_entropy, logits_of, losses_of
from tutelage.models import MaskUNet
from tutelage.signals import Signal, Unrolled
from tutelage.teacher import taps_of
from tutelage.teachers import (
    SURFACE_FEATURES,
    AttentionMask,
    AuxiliaryTargets,
    Blending,
    CombinedTeacher,
    Copies,
    Curriculum,
    DynamicLoss,
    InternalState,
    KeepProbability,
    LossWeigher,
    MarginLoss,
    MentorNetDD,
    MentorNetPD,
    MetaLabelCorrection,
    MetaSoftLabelCorrector,
    Mixup,
    OutOfFoldTargets,
    PermutationControl,
    Plain,
    RandomBlending,
    RandomMask,
    SelfPaced,
    Shuffled,
    SupportWeights,
    UniformCopies,
    WorstCase,
    WorstCaseSoft,
)
from tutelage.training.forward import StepResult
from tutelage.training.teacher_buffers import memory_of
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Observation, PreparedBatch, Progress, as_prepared

SIZE, CLASSES = 4, 3


class Brighter(nn.Module):
    """Prepares: adds a learned amount of light."""

    def __init__(self) -> None:
        super().__init__()
        self.light = nn.Parameter(torch.tensor(0.1))

    def prepare(self, batch: Batch) -> PreparedBatch:
        return as_prepared(batch)._replace(inputs=batch.inputs + self.light)


def small_network(channels: int) -> nn.Module:
    # no bias in front of batch normalisation, which would take it out again
    convolution = nn.Conv2d(channels, 4, 3, padding=1, bias=False)
    head = nn.Linear(4 * SIZE * SIZE, 1)
    return nn.Sequential(convolution, nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), head)


def pixel_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.SiLU(), nn.Conv2d(3, 1, 3, padding=1, bias=False)
    )


def copies() -> nn.Module:
    return Copies(3, partial(crop_and_flip, pad=1), include_original=True)


def features() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.SiLU(), nn.Flatten())


def internal_state(
    student: nn.Module, hidden_layers: int = 0, *, attached: bool = False, level: str = "free"
) -> nn.Module:
    return InternalState(
        student,
        classes=CLASSES,
        tap="3",
        surface=tuple(SURFACE_FEATURES),
        hidden_layers=hidden_layers,
        attached=attached,
        level=level,
    )


def out_of_fold_targets(*, table: bool = True) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(6, CLASSES, generator=generator).softmax(1)
    given = torch.randint(0, CLASSES, (6,), generator=generator)
    return OutOfFoldTargets(torch.arange(6) + 10, p, given, width=8, table=table)


TEACHERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "plain": lambda _: Plain(),
    "loss weigher": lambda _: LossWeigher(width=8),
    "internal state": internal_state,
    "margin and loss": lambda student: MarginLoss(student, CLASSES),
    "internal state, centred": lambda student: internal_state(student, level="centred"),
    "internal state, MLP-2": lambda student: internal_state(student, 2),
    "internal state, attached": lambda student: internal_state(student, 1, attached=True),
    "curriculum": lambda _: Curriculum(small_network(2)),
    "curriculum, no iteration": lambda _: Curriculum(small_network(1), iteration=False),
    "brighter": lambda _: Brighter(),
    "together": lambda student: CombinedTeacher(Brighter(), internal_state(student)),
    "blending": lambda _: Blending(CLASSES),
    "random blending": lambda _: RandomBlending(CLASSES, seed=3),
    "mixup": lambda _: Mixup(CLASSES, alpha=1.0),
    "out-of-fold targets": lambda _: out_of_fold_targets(),
    "out-of-fold targets, no table": lambda _: out_of_fold_targets(table=False),
    "shuffled": lambda _: Shuffled(Blending(CLASSES), seed=3),
    "mask": lambda _: AttentionMask(pixel_network(), sigma=1.5),
    "mask u-net": lambda _: AttentionMask(MaskUNet(1, width=4, levels=1), sigma=1.5),
    "random mask": lambda _: RandomMask(sigma=1.5),
    "permuted mask": lambda _: PermutationControl(AttentionMask(pixel_network(), sigma=1.5)),
    "permuted weights": lambda _: PermutationControl(Curriculum(small_network(2))),
    "auxiliary targets": lambda _: AuxiliaryTargets(small_network(1)),
    "self-paced": lambda _: SelfPaced(),
    "MentorNet PD": lambda _: MentorNetPD(burn_in=0.0, width=9.0),
    "MentorNet DD": lambda _: MentorNetDD(CLASSES),
    "keep probability": lambda _: KeepProbability(CLASSES),
    "meta label correction": lambda student: MetaLabelCorrection(
        student, classes=CLASSES, tap="3", embedding=3, width=4
    ),
    "meta soft label corrector": lambda _: MetaSoftLabelCorrector(
        torch.arange(6) + 10, torch.tensor([[0.5, 0.3, 0.2]]).expand(6, CLASSES), width=5
    ),
    "dynamic loss": lambda _: DynamicLoss(CLASSES),
    "support weights": lambda _: SupportWeights(
        features(), features=3 * SIZE**2, classes=CLASSES, width=4
    ),
    "blending and loss weigher": lambda _: CombinedTeacher(
        Blending(CLASSES), LossWeigher(width=8)
    ),
    "mask and curriculum": lambda _: CombinedTeacher(
        AttentionMask(pixel_network(), sigma=1.5), Curriculum(small_network(2))
    ),
    "uniform copies": lambda _: CombinedTeacher(copies(), UniformCopies()),
    "worst case": lambda _: CombinedTeacher(copies(), WorstCase(1.0)),
    "worst case, soft": lambda _: CombinedTeacher(copies(), WorstCaseSoft(1.0, 1.0)),
}
FIXED = (
    *("plain", "random blending", "mixup", "shuffled", "random mask"),
    *("self-paced", "MentorNet PD"),
    *("uniform copies", "worst case", "worst case, soft"),
)
PREPARING = (
    *("brighter", "blending", "mask", "mask u-net"),
    *("permuted mask", "auxiliary targets"),
)
LEARNING = [name for name in TEACHERS if name not in FIXED]
GIVING_LOSSES = ("dynamic loss", "meta label correction", "meta soft label corrector")
WEIGHING = [name for name in LEARNING if name not in (*PREPARING, *GIVING_LOSSES)]


class TwoHeads(nn.Module):
    """Gives what a student gives, and an auxiliary prediction beside it."""

    def __init__(self, student: nn.Sequential) -> None:
        super().__init__()
        self.body, self.head = student[:-1], student[-1]
        self.second = nn.Linear(36, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x)
        return self.head(hidden), self.second(hidden)


def build_student(name: str = "") -> nn.Module:
    torch.manual_seed(0)
    student = nn.Sequential(
        nn.Conv2d(1, 4, 2), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(36, CLASSES)
    )
    return TwoHeads(student) if name == "auxiliary targets" else student


def objective_of(student: nn.Module) -> Objective:
    return Auxiliary(cross_entropy) if isinstance(student, TwoHeads) else cross_entropy


def build_teacher(name: str, student: nn.Module, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    teacher = TEACHERS[name](student)
    for p in teacher.parameters():
        if p.ndim > 0:  # a last layer of zeros would hide the ones before it
            nn.init.normal_(p, std=0.3)
    return teacher


def batch_of(size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(size, 1, SIZE, SIZE, generator=generator, dtype=dtype)
    labels = torch.randint(0, CLASSES, (size,), generator=generator)
    return Batch(images, labels, torch.arange(size) + 10)


class Watched(Signal):
    """``Unrolled(2)`` with a memory of what it answered."""

    steps: int = 2

    def __init__(self) -> None:
        self.estimates: list[Estimate] = []

    def __call__(self, problem, teacher_params, window, held_out) -> Estimate:
        self.estimates.append(Unrolled(2)(problem, teacher_params, window, held_out))
        return self.estimates[-1]


def train(
    teacher: nn.Module, student: nn.Module, size: int, dtype: torch.dtype = torch.float64
) -> tuple[Estimate, list[StepResult]]:
    """Two student steps of plain SGD and the hypergradient through both."""
    signal = Watched()
    teacher, student = teacher.to(dtype), student.to(dtype)
    learner = torch.optim.SGD(teacher.parameters(), lr=1e-3)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        learner,
        signal=signal,
        teacher_every=2,
        total_steps=10,
        objective=objective_of(student),
    )
    tutor.steps, tutor.best_accuracy = 4, 0.5
    records = [
        tutor.step(batch_of(size, seed, dtype), batch_of(6, 9, dtype)) for seed in (1, 2)
    ]
    return signal.estimates[0], records


@pytest.mark.parametrize("name", LEARNING)
def test_the_gradient_reaches_every_parameter_of_the_teacher(name) -> None:
    student = build_student(name)
    teacher = build_teacher(name, student)
    estimate, _ = train(teacher, student, 6)
    assert estimate.grad.keys() == {key for key, _ in teacher.named_parameters()}
    for key, grad in estimate.grad.items():
        assert grad.isfinite().all()
        assert grad.abs().max() > 0, key


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LEARNING)
def test_the_teacher_works_in_either_precision(name, dtype) -> None:
    student = build_student(name)
    teacher = build_teacher(name, student)
    before = {k: p.detach().clone() for k, p in teacher.named_parameters()}
    estimate, records = train(teacher, student, 6, dtype)
    assert all(record.loss.dtype == record.weights.dtype == dtype for record in records)
    for key, p in teacher.named_parameters():
        assert estimate.grad[key].dtype == p.dtype == dtype
        assert estimate.grad[key].isfinite().all()
        assert not torch.equal(p, before[key].to(dtype))


def weights_of(teacher: nn.Module, student: nn.Module) -> Tensor:
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    objective = objective_of(student)
    problem = Tutor(student, optimizer, teacher, total_steps=4, objective=objective).problem
    teacher_params, view = leaves(dict(teacher.named_parameters())), problem.student
    prepared = problem.prepare(teacher_params, batch_of(6))
    state = view.state()
    outputs, features, _ = view.evaluate(
        state.params, state.buffers, prepared.inputs, taps_of(teacher)
    )
    losses = losses_of(objective, outputs, prepared)
    seen = Observation(losses, logits_of(outputs), features, Progress(0.5, 1.0, 0.25))
    weights = problem.weights(teacher_params, prepared, seen, 0).reshape(losses.shape)
    return (weights * problem.row_losses(teacher_params, prepared, seen, 0)).detach()


@pytest.mark.parametrize("name", TEACHERS)
def test_a_stored_and_loaded_teacher_gives_the_same_weights(name) -> None:
    student = build_student(name).double()
    teacher = build_teacher(name, student, seed=1).double()
    other = build_teacher(name, student, seed=2).double()
    with torch.no_grad():
        for p in teacher.parameters():
            p.add_(0.1)
    wanted = weights_of(teacher, student)
    if name in WEIGHING:
        assert not torch.equal(weights_of(other, student), wanted)
    other.load_state_dict(teacher.state_dict())
    assert torch.equal(weights_of(other, student), wanted)


@pytest.mark.parametrize("name", LEARNING)
def test_a_batch_of_one_trains_and_teaches(name) -> None:
    student = build_student(name)
    estimate, records = train(build_teacher(name, student), student, 1)
    assert all(record.weights.shape == (1,) for record in records)
    assert all(record.loss.isfinite() for record in records)
    assert all(grad.isfinite().all() for grad in estimate.grad.values())
    assert all(p.isfinite().all() for p in student.parameters())


@pytest.mark.parametrize("name", sorted({*WEIGHING} - {"internal state, centred"}))
def test_a_batch_without_weight_moves_nothing_and_gives_a_finite_hypergradient(name) -> None:
    student = build_student(name)
    teacher = build_teacher(name, student)
    last = [part for part in teacher.modules() if isinstance(part, nn.Linear)][-1]
    nn.init.constant_(last.bias, -1e5)
    before = {k: p.detach().double() for k, p in student.state_dict().items()}
    with pytest.warns(UserWarning, match="carried no weight"):
        estimate, records = train(teacher, student, 6)
    for record in records:
        assert torch.equal(record.weights, torch.zeros(6, dtype=torch.float64))
        assert record.loss.item() == 0.0
    assert all(torch.equal(p, before[k]) for k, p in student.state_dict().items())
    assert all(grad.isfinite().all() for grad in estimate.grad.values())


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("name", FIXED)
def test_a_baseline_trains_a_student_and_learns_nothing(name, size) -> None:
    student = build_student()
    teacher = build_teacher(name, student)
    assert not list(teacher.parameters())
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    tutor = Tutor(student, optimizer, teacher, total_steps=2)
    before = {k: p.clone() for k, p in student.state_dict().items()}
    remembered = memory_of(teacher)
    kept = {k: b.clone() for k, b in teacher.state_dict().items() if k not in remembered}
    for seed in (1, 2):
        assert tutor.step(batch_of(size, seed, torch.float32)).loss.isfinite()
    assert not all(torch.equal(p, before[k]) for k, p in student.state_dict().items())
    after = teacher.state_dict()
    assert all(torch.equal(after[k], b) for k, b in kept.items())

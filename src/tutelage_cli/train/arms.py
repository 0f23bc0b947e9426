"""The arms of a study: teacher, signal and optimiser of each."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from tutelage.augment import AutoAugment, Policy, RandAugment, TrivialAugment, UniformAugment
from tutelage.commentaries import load_commentary
from tutelage.errors import UsageError
from tutelage.functional.submodule_outputs import inferred_width
from tutelage.losses.objectives import Objective, cross_entropy, expected_error
from tutelage.losses.probability import Focal, GeneralisedCrossEntropy
from tutelage.models import TwoBlockCNN, default_tap
from tutelage.models.heads import head
from tutelage.randomness import seeded
from tutelage.signals import GradientAlignment, Lookahead, Reversible, Signal
from tutelage.teachers import (
    Aligned,
    Curriculum,
    DynamicLoss,
    FixedAugmentation,
    GivenWeights,
    InternalState,
    LearnedAugmentation,
    LossWeigher,
    MarginLoss,
    MentorNetDD,
    MentorNetPD,
    OutOfFoldTargets,
    Plain,
    SelfPaced,
)
from tutelage.training.not_finite import PATIENCE
from tutelage.training.tutor import Tutor
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.by_name import read_by_name, values_of
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.data_parallel import make_tutor
from tutelage_cli.train.names import OLA, OUT_OF_FOLD, USED_BY
from tutelage_cli.train.settings import UNROLL_STEPS, TrainSettings
from tutelage_cli.train.students import Data, image_student, student_name, text_student


class Taught(NamedTuple):
    """How a teacher of ``TAUGHT_BY`` is built and learns."""

    build: Callable[[nn.Module, Data, TrainSettings], nn.Module]
    """from the student, the training set and the settings"""
    signal: Callable[[int], Signal] | None = None
    """from the number of unrolled steps; None for a teacher that learns nothing"""
    every: int = 5
    """student steps between two teacher steps, where the settings do not say"""
    lr: float = 0.02
    """of the teacher's Adam, where the settings do not say"""
    objective: Objective = cross_entropy
    """the student's training loss"""
    decay: float = 0.0
    """weight decay of the teacher's AdamW"""


def _require_images(data: Data, teacher: str) -> ImageSet:
    if isinstance(data, ImageSet):
        return data
    what = "texts" if isinstance(data, TextSet) else "features"
    raise UsageError(f"{teacher} takes images, but {data.name} has {what}.")


def _margin_loss(student: nn.Module, data: Data, settings: TrainSettings) -> nn.Module:
    return MarginLoss(student, len(data.classes), level=settings.level or "centred")


def _internal_state(student: nn.Module, data: Data, settings: TrainSettings) -> nn.Module:
    tap = default_tap(student) if settings.tap is None else settings.tap
    try:
        width = inferred_width(student, tap)
    except UsageError as error:
        raise UsageError(f"--tap {tap} with {student_name(settings, data)}: {error}") from error
    if width is None:
        raise UsageError(
            f"The width of tap '{tap}' cannot be read off {student_name(settings, data)}. "
            "Give --tap a module that is linear or feeds the last linear layer, or none."
        )
    return InternalState(
        student, classes=len(data.classes), tap=tap, level=settings.level or "free"
    )


def _curriculum(_: nn.Module, data: Data, __: TrainSettings) -> nn.Module:
    images = _require_images(data, "curriculum")
    channels, size = images.images.shape[1], images.images.shape[2]
    return Curriculum(TwoBlockCNN(channels + 1, 1, size))


def _learned_augmentation(_: nn.Module, data: Data, __: TrainSettings) -> nn.Module:
    images = _require_images(data, OLA)
    mean, std = (values.tolist() for values in statistics(images))
    return LearnedAugmentation(mean=mean, std=std)


def _fixed(policy: Policy) -> Taught:
    def build(_: nn.Module, data: Data, __: TrainSettings) -> nn.Module:
        images = _require_images(data, "a policy of augmentation")
        mean, std = (values.tolist() for values in statistics(images))
        return FixedAugmentation(policy, mean=mean, std=std)

    return Taught(build)


TAUGHT: dict[str, Taught] = {
    "margin-loss": Taught(_margin_loss, Reversible),
    "internal-state": Taught(_internal_state, Reversible),
    "loss": Taught(lambda *_: LossWeigher(), lambda _: Lookahead(), every=1),
    "curriculum": Taught(_curriculum, Reversible),
    "l2t-loss": Taught(lambda _, data, __: DynamicLoss(len(data.classes)), Reversible, lr=1e-4),
    OLA: Taught(
        _learned_augmentation, lambda _: GradientAlignment(evaluate_on="plain"), every=2, lr=0.1
    ),
    "uniform-augment": _fixed(UniformAugment()),
    "rand-augment": _fixed(RandAugment()),
    "trivial-augment": _fixed(TrivialAugment()),
    "auto-augment": _fixed(AutoAugment()),
    "mentornet-dd": Taught(lambda _, data, __: MentorNetDD(len(data.classes)), Reversible),
    "mentornet": Taught(lambda *_: MentorNetPD()),
    "reweight": Taught(lambda *_: Aligned()),
    "self-paced": Taught(lambda *_: SelfPaced()),
    "focal": Taught(lambda *_: Plain(), objective=Focal(2.0)),
    "gce": Taught(lambda *_: Plain(), objective=GeneralisedCrossEntropy(0.7)),
}


def _out_of_fold(_: nn.Module, data: Data, __: TrainSettings) -> nn.Module:
    # before there are predictions: uniform
    alike = torch.full((len(data), len(data.classes)), 1 / len(data.classes))
    return OutOfFoldTargets(data.ids, alike, data.labels)


TAUGHT[OUT_OF_FOLD] = Taught(_out_of_fold, Reversible, lr=0.005, decay=2.0)
LAST_LAYER_EVERY = 2
"""student steps between two teacher steps through the last layer alone"""
METRICS = {"log-likelihood": cross_entropy, "expected-accuracy": expected_error}


def build_tutor(
    arm: str,
    seed: int,
    train: Data,
    settings: TrainSettings,
    steps: int,
    *,
    objective: Objective = cross_entropy,
    teacher: nn.Module | None = None,
) -> Tutor:
    """A fresh student of a seed with the teacher, signal and optimisers of an arm."""
    device = device_of(settings)
    student = new_student(settings, train, seed).to(device)
    optimizer = SGD(
        student.parameters(),
        lr=settings.lr,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )
    if arm == "untaught":
        return make_tutor(
            student, optimizer, Plain(), total_steps=steps, objective=objective, seed=seed
        )
    if arm == "commentary":
        assert settings.commentary is not None
        stored = load_commentary(
            settings.commentary,
            student,
            classes=train.classes,
            sides=train.images.shape[2:] if isinstance(train, ImageSet) else None,
            zero_label=settings.label_embedding == "zero",
        )
        if isinstance(stored, LearnedAugmentation):  # this study's batches, not its own
            images = _require_images(train, "this commentary")
            stored.normalised_by(*(values.tolist() for values in statistics(images)))
        return make_tutor(student, optimizer, stored.to(device), total_steps=steps, seed=seed)
    if arm == "weights":
        assert settings.weights_from is not None
        kept = read_by_name(settings.weights_from, "weight", lowest=0.0)
        weights = values_of(kept, train, otherwise=settings.default_weight)
        teacher = GivenWeights(train.ids, weights).to(device)
        return make_tutor(student, optimizer, teacher, total_steps=steps, seed=seed)
    taught = TAUGHT[arm]
    with seeded(seed):
        teacher = taught.build(student, train, settings) if teacher is None else teacher
        teacher = teacher.to(device)
    features = isinstance(train, FeatureSet)
    signal, every = signal_and_period(arm, settings, features=features)
    if signal is None:
        return make_tutor(
            student,
            optimizer,
            teacher,
            total_steps=steps,
            objective=taught.objective,
            seed=seed,
        )
    tutor = make_tutor(
        student,
        optimizer,
        teacher,
        _optimizer(teacher, taught, settings.teacher_lr),
        signal=signal,
        teacher_every=every,
        total_steps=steps,
        objective=taught.objective,
        metric=METRICS[settings.metric],
        seed=seed,
    )
    tutor.cautions = None  # the command gives them before the run
    if tutor.teacher_updater is not None:
        tutor.teacher_updater.patience = PATIENCE
    return tutor


def _learns_through_last_layer(arm: str, settings: TrainSettings, *, features: bool) -> bool:
    """Whether the teacher's gradient is taken through the student's last layer alone."""
    if settings.layers is None:
        default = arm == "margin-loss" and settings.unroll_steps is None
        return default and features
    return settings.layers == "last" and arm in USED_BY["layers"]


def signal_and_period(
    arm: str, settings: TrainSettings, *, features: bool
) -> tuple[Signal | None, int]:
    """The signal of a teacher, and the student steps between two of its steps."""
    taught = TAUGHT[arm]
    if _learns_through_last_layer(arm, settings, features=features):
        return Lookahead(layers="last"), settings.teacher_every or LAST_LAYER_EVERY
    unroll = settings.unroll_steps or UNROLL_STEPS
    signal = None if taught.signal is None else taught.signal(unroll)
    return signal, settings.teacher_every or taught.every


def _optimizer(teacher: nn.Module, taught: Taught, lr: float | None) -> Optimizer:
    rate = taught.lr if lr is None else lr
    if not taught.decay:
        return Adam(teacher.parameters(), rate)
    return AdamW(teacher.parameters(), rate, weight_decay=taught.decay)


def new_student(settings: TrainSettings, train: Data, seed: int) -> nn.Module:
    """The student that the settings name, with the first weights of a seed."""
    if isinstance(train, TextSet):
        return text_student(settings, train, seed)
    if isinstance(train, FeatureSet):
        with seeded(seed):
            width = train.features.shape[1]
            return head(student_name(settings, train), width, len(train.classes))
    return image_student(settings, train, seed)


def device_of(settings: TrainSettings) -> torch.device:
    """The device that the students are trained on."""
    if settings.device != "auto":
        return torch.device(settings.device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")

"""How a student is trained on weighted examples, for every table about deep interactions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import nn
from torch.optim import SGD, Adam

from papers.fan2021interactions.heads import STAGED_MLPS
from papers.framework.settings import RecipeSettings, Shares
from tutelage.errors import UsageError, in_one_line
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.models import internal_state
from tutelage.models.catalogue import build_student, require_student
from tutelage.models.pretrained_images import LITE0
from tutelage.randomness import seeded
from tutelage.signals import Lookahead, Reversible, Signal
from tutelage.teachers import (
    PAPER_SURFACE_FEATURES,
    InternalState,
    LossWeigher,
    MarginLoss,
    MentorNetPD,
    Plain,
)
from tutelage.training.tutor import Tutor
from tutelage.validation.ranges import factor
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.noise import require_noise
from tutelage_cli.data.sources import read
from tutelage_cli.data.splits import limit_rows
from tutelage_cli.train.evaluation import Evaluation, accuracy, evaluate, weight_statistics
from tutelage_cli.train.job import learning_rate
from tutelage_cli.train.material import (
    Material,
    Source,
    Streams,
    given_labels,
    open_streams,
    read_source,
    seed_material,
)
from tutelage_cli.train.settings import TrainSettings


def _known_student(settings: object, name: str) -> None:
    if (student := getattr(settings, name)) not in STAGED_MLPS:
        require_student(student)


Student = Annotated[str, _known_student]
"""a name of ``tutelage.models.STUDENTS``, for images, or of ``STAGED_MLPS``, for features"""


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's with flipped labels."""

    data: str = "cifar10"
    student: Student = "resnet32"
    examples: int | None = None
    """training images, class balanced, beside the held-out ones; None: all"""
    held_out: int = 1000
    tested: int | None = None  # test images, class balanced; None: all
    noise: str = "flip2:0.4"
    imbalance: Annotated[float | None, factor] = None
    augment: Literal["none", "crop", "crop-flip"] = "crop-flip"
    batch: int = 100
    epochs: int = 60
    lr: float = 0.1
    weight_decay: float = 5e-4
    decay_at: Shares = (2 / 3, 5 / 6)
    """shares of the run after which the learning rate is divided by ten"""
    teacher_lr: float = 1e-3
    every: int = 20  # student steps between two teacher steps
    look_back: int = 2  # student steps that the teacher's gradient looks back over

    def __post_init__(self) -> None:
        super().__post_init__()
        require_noise(self.noise, self.data)
        if self.look_back > self.every:
            raise UsageError(
                f"look_back is {self.look_back}, but there are only {self.every} student steps "
                f"between two teacher steps: give every {self.look_back} or more."
            )


@cache
def source(data: str, noise: str, *, as_features: bool) -> Source:
    """The data, or their features by a frozen network, read once in each process."""
    settings = TrainSettings(data=data, noise=noise)
    if as_features:
        return read_source(replace(settings, student=LITE0, freeze=True))
    splits = read(data)
    return Source(splits, given_labels(splits.train, settings))


def train_settings_of(settings: Settings) -> TrainSettings:
    """The same settings as those of ``tutelage train``."""
    return TrainSettings(
        data=settings.data,
        student=settings.student,
        noise=settings.noise,
        imbalance=settings.imbalance,
        held_out=settings.held_out,
        limit=settings.examples,
        augment=settings.augment,
        epochs=settings.epochs,
        batch_size=settings.batch,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        decay_at=settings.decay_at,
    )


def material_of(settings: Settings, seed: int) -> Material:
    """What the students of a seed are trained and tested on."""
    data = source(settings.data, settings.noise, as_features=settings.student in STAGED_MLPS)
    material = seed_material(data, train_settings_of(settings), seed)
    if settings.tested is None:
        return material
    test = material.test
    rows = limit_rows(test.labels, settings.tested, len(test.classes), seed=0)
    return replace(material, test=test.rows(rows))


class Inputs(NamedTuple):
    """What a student is made for."""

    classes: int
    shape: tuple[int, ...]
    """of one example: channels, height and width of an image, or the number of features"""


def inputs_of(material: Material) -> Inputs:
    """Classes and shape of a seed's examples."""
    train = material.train
    values = train.features if isinstance(train, FeatureSet) else train.images
    return Inputs(len(train.classes), tuple(values.shape[1:]))


def make_student(name: str, inputs: Inputs, seed: int) -> nn.Module:
    """A newly initialised student on the CPU."""
    if name in STAGED_MLPS:
        (features,) = inputs.shape
        with seeded(seed):
            return STAGED_MLPS[name](features, inputs.classes)
    channels, size, _ = inputs.shape
    return build_student(name, classes=inputs.classes, channels=channels, size=size, seed=seed)


class Method(NamedTuple):
    """How the students of an arm are trained."""

    build: Callable[[nn.Module, Inputs], nn.Module]
    """the teacher, from the student and what it is shown"""
    signal: Callable[[int], Signal] | None = Reversible
    """from the steps to look back over; None where nothing is learned"""
    every: int | None = None
    """student steps between two teacher steps; the settings' where None"""
    look_back: int | None = None  # the settings' where None
    objective: Objective = cross_entropy  # what the student descends
    metric: Objective | None = None  # of held-out images; the objective where None
    teacher_lr: float | None = None  # the settings' where None


def _independent(
    make: Callable[[], nn.Module], _student: nn.Module, _inputs: Inputs
) -> nn.Module:
    # a teacher that does not depend on student and images
    return make()


TRUST = {
    "weight_right": "mean weight of correctly labelled images at the end of training, before "
    "rescaling",
    "weight_wrong": "the same for wrongly labelled images",
    "auroc": "AUROC: probability that a wrong label has a lower weight than a right one",
}
PLAIN = Method(partial(_independent, Plain), signal=None)  # no teacher


class Trained(NamedTuple):
    """A student at the end of its schedule."""

    tutor: Tutor
    material: Material
    streams: Streams
    series: Mapping[str, list[float]]  # one number per epoch

    def errors(self) -> dict[str, float]:
        """Error on the test images, the same ones throughout."""
        held_out, test = self.series["held-out error"], self.series["test error"]
        chosen = test[held_out.index(min(held_out))]
        return {"error": test[-1], "chosen_error": chosen, "best_error": min(test)}

    def evaluate(self) -> Evaluation:
        """Losses and weights of the training set at the end."""
        return evaluate(self.tutor, self.streams.train, self.streams.held_out.draw(0))

    def weight_statistics(self) -> dict[str, float]:
        """How well the teacher's weights separate right from wrong labels at the end."""
        wrong = self.material.wrong
        none: dict[str, float] = {}
        found = none if wrong is None else weight_statistics(self.evaluate().weights, wrong)
        return {k: found.get(k, float("nan")) for k in TRUST}


def student_of(
    settings: Settings, inputs: Inputs, seed: int, device: torch.device
) -> tuple[nn.Module, SGD]:
    """A fresh student, and its optimiser."""
    student = make_student(settings.student, inputs, seed).to(device)
    decay = settings.weight_decay
    return student, SGD(student.parameters(), settings.lr, momentum=0.9, weight_decay=decay)


def build_tutor(
    method: Method,
    seed: int,
    settings: Settings,
    inputs: Inputs,
    steps: int,
    device: torch.device,
) -> Tutor:
    """A fresh student of a seed with its teacher."""
    student, rule = student_of(settings, inputs, seed, device)
    with seeded(seed):
        teacher = method.build(student, inputs).to(device)
    run: dict[str, Any] = {"total_steps": steps, "objective": method.objective, "seed": seed}
    if method.signal is not None:
        run["teacher_optimizer"] = Adam(
            teacher.parameters(), method.teacher_lr or settings.teacher_lr
        )
        run["signal"] = method.signal(method.look_back or settings.look_back)
        run |= {"teacher_every": method.every or settings.every, "metric": method.metric}
    return Tutor(student, rule, teacher, **run)


def train(method: Method, seed: int, settings: Settings, device: torch.device) -> Trained:
    """Train one student by the schedule, on the data of its seed."""
    return train_on(material_of(settings, seed), method, seed, settings, device)


def train_on(
    material: Material, method: Method, seed: int, settings: Settings, device: torch.device
) -> Trained:
    """Train one student by the schedule, on given data."""
    train_settings = train_settings_of(settings)
    streams = open_streams(material, train_settings, seed, device)
    steps = len(streams.train) * settings.epochs
    tutor = build_tutor(method, seed, settings, inputs_of(material), steps, device)
    series: dict[str, list[float]] = {"test error": [], "held-out error": []}
    for epoch in range(settings.epochs):
        for group in tutor.optimizer.param_groups:
            group["lr"] = learning_rate(train_settings, epoch)
        tutor.student.train()
        for batch in streams.train.epoch(epoch):
            held_out = streams.held_out.draw(tutor.steps) if tutor.wants_held_out else None
            tutor.step(batch, held_out)
        held = accuracy(tutor, streams.held_out)
        tutor.best_accuracy = max(tutor.best_accuracy, held)
        series["held-out error"].append(100 * (1 - held))
        series["test error"].append(100 * (1 - accuracy(tutor, streams.test)))
    return Trained(tutor, material, streams, series)


def check_arms(methods: Mapping[str, Method], settings: Settings) -> None:
    """Read the data, so that it is cached, and find what does not fit it before any job."""
    material = material_of(settings, 0)
    inputs = inputs_of(material)
    if settings.batch > len(material.train):
        raise UsageError(
            f"batch is {settings.batch}, but there are {len(material.train)} examples to train "
            "on: give that or less."
        )
    for arm, method in methods.items():
        try:
            build_tutor(method, 0, settings, inputs, settings.epochs, torch.device("cpu"))
        except UsageError:
            raise
        except (RuntimeError, ValueError) as error:  # torch's own, by any layer
            raise UsageError(
                f"{settings.student} taught by {arm} cannot be made for examples of shape "
                f"{inputs.shape}: {in_one_line(error)}"
            ) from error


FEATURES = (*("I0+M0", "I0", "M0", "M1", "M0+M1", "I0+M0+M1"), *("I1+M0", "I2+M0", "I3+M0"))
"""teacher inputs of the paper's ablations: an internal state, label M0, surface features M1"""


def _internal_state_teacher(
    features: str, options: Mapping[str, Any], student: nn.Module, inputs: Inputs
) -> nn.Module:
    shown = features.split("+")
    seen: dict[str, Any] = {"label": "M0" in shown}
    if "M1" in shown:
        seen["surface"] = PAPER_SURFACE_FEATURES
    if shown[0].startswith("I"):
        tap = internal_state(student, shown[0], inputs.shape)
        seen |= {"tap": tap.name, "tap_width": tap.width}
    return InternalState(student, classes=inputs.classes, **seen, **options)


def interactions(
    features: str = "I0+M0",
    *,
    every: int | None = None,
    look_back: int | None = None,
    **options: Any,
) -> Method:
    """A teacher of deep interactions that sees some of ``FEATURES``; options as its class's."""
    build = partial(_internal_state_teacher, features, options)
    return Method(build, every=every, look_back=look_back)


def _margin_loss(level: str, student: nn.Module, inputs: Inputs) -> nn.Module:
    return MarginLoss(student, inputs.classes, level=level)


def margin_loss(level: str) -> Method:
    """The teacher of ``tutelage train``: margin and loss, one hidden layer of 32."""
    return Method(partial(_margin_loss, level))


def _one_step_ahead(_look_back: int) -> Lookahead:
    return Lookahead()


META_WEIGHT_NET = Method(partial(_independent, LossWeigher), signal=_one_step_ahead, every=1)
MENTOR_NET = Method(partial(_independent, MentorNetPD), signal=None)

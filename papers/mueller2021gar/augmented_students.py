"""Students trained with an augmentation policy: none, fixed, or learned during training."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import cos, pi
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.lr_scheduler import LambdaLR

from papers.framework.settings import CountOrZero, RecipeSettings, Student
from papers.students import build_network, evaluate, fit, limited, sgd
from tutelage.augment import StandardAugmentation, UniformAugment
from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.randomness import mixed_seed
from tutelage.signals import GradientAlignment, OneStep
from tutelage.signals.policy_gradients import normalised, policy_gradient
from tutelage.signals.signal import EvaluateOn
from tutelage.teachers import LearnedAugmentation, Plain
from tutelage.training.step_strategy import PlainStep
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Params, Window
from tutelage_cli.data.batches import Batches, CollateImages, statistics
from tutelage_cli.data.sources import read

STILL = ("frozen", "random")  # policies that do not learn


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or those of its code's base recipe."""

    student: Student = "wrn-28-10"
    examples: int = 50_000  # training images, class balanced
    tested: int = 10_000  # test images, class balanced
    batch: int = 256  # images per student step
    epochs: int = 200  # counted over the images of all steps, augmented or not
    lr: float = 0.2  # of SGD with Nesterov momentum, falling to 0 along a cosine
    warm_up: float = 0.025  # share of the run in which it rises to that
    cutout: CountOrZero = 16
    """side of the square that is cut out in training, pixels; 0 for none"""
    teacher_lr: float = 0.1  # of Adam on the policy's logits

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm_up >= 1:
            raise UsageError(f"warm_up is a share in [0, 1), got {self.warm_up:g}.")


class Trained(NamedTuple):
    """Results of a trained student and of its policy."""

    test: dict[str, float]  # ``test_accuracy`` in percent, ``test_loss`` in nats
    losses: list[float]  # mean training loss of each epoch, nats
    teacher: LearnedAugmentation | None
    effect: "KeepEffect"  # of its policy's operations; empty without one
    fitted: float  # accuracy on the training images without augmentation, percent


@dataclass(frozen=True)
class KeepEffect:
    """Rewards by operation: where it was applied, and where it was dropped."""

    done: np.ndarray = field(default_factory=lambda: np.zeros((64, 2)))
    """sum of normalised rewards and number of cases, by place in the space"""
    dropped: np.ndarray = field(default_factory=lambda: np.zeros((64, 2)))

    def add(self, teacher: LearnedAugmentation, batch: Batch, rewards: Tensor) -> None:
        """Count a step."""
        count, actions = teacher.draw(batch.seed, batch.ids)
        drawn = np.arange(teacher.most) < count[:, None]
        each = np.broadcast_to(rewards.double().cpu().numpy()[:, None], drawn.shape)
        for total, where in ((self.done, actions.kept), (self.dropped, drawn & ~actions.kept)):
            np.add.at(total[:, 0], actions.operation[where], each[where])
            np.add.at(total[:, 1], actions.operation[where], 1)

    def difference(self, operations: int) -> np.ndarray:
        """Mean normalised reward where an operation was applied minus where it was dropped."""
        done, dropped = (
            total[:operations, 0] / np.maximum(total[:operations, 1], 1)
            for total in (self.done, self.dropped)
        )
        return done - dropped


@dataclass(frozen=True)
class AlignmentByOperation(OneStep):
    """Gradient alignment whose rewards are also summed by operation, and may be permuted."""

    effect: KeepEffect
    permuted: bool = False
    """give each example the reward of another: a control that learns from noise alone"""
    inner: GradientAlignment = field(
        default_factory=lambda: GradientAlignment(evaluate_on="plain")
    )
    evaluate_on: EvaluateOn = field(default="plain", init=False)
    steps: int = field(default=1, init=False)

    def records(self, problem: BilevelProblem) -> bool:
        """Whether the step's passes are to be recorded."""
        return self.inner.records(problem)

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the policy gradient."""
        assert isinstance(problem.teacher, LearnedAugmentation)
        earned, verdict = self.inner.sampled_step(problem, teacher_params, window, held_out)
        reward = earned.rewards()
        weights, step = normalised(reward, "standard"), earned.step
        self.effect.add(problem.teacher, step.batch, weights)
        if self.permuted:
            generator = torch.Generator().manual_seed(mixed_seed(step.batch.seed, 1))
            order = torch.randperm(len(weights), generator=generator)
            weights = weights[order.to(weights.device)]
        found = policy_gradient(
            problem, teacher_params, step, earned.observed, weights, earned.prepared
        )
        return Estimate(found, verdict.loss, {"reward": float(reward.mean())})


splits = cache(read)  # images by name, read once in each process


def train(
    data: str,
    policy: str,
    space: str,
    settings: Settings,
    seed: int,
    device: torch.device,
    *,
    moved: bool = True,
) -> Trained:
    """Train one student.

    Crops, flips and the cutout are the student's first layer, after every policy.
    """
    training = limited(splits(data).train, settings.examples, mixed_seed(seed, 2))
    test = limited(splits(data).test, settings.tested, mixed_seed(0, 2))
    mean, std = (values.tolist() for values in statistics(training))
    network = build_network(settings.student, training, mixed_seed(seed, 0))
    pad = 4 if moved else 0
    standard = StandardAugmentation(mean, std, pad=pad, flip=moved, side=settings.cutout)
    student = nn.Sequential(standard, network).to(device)
    effect = KeepEffect()
    tutor = _tutored(student, policy, space, settings, seed, effect)
    uniform = UniformAugment(space_name=space)
    collate = as_they_are = CollateImages(torch.zeros(len(mean)), torch.ones(len(mean)))
    if policy == "uniform":
        collate = replace(collate, augment=lambda images, drawn: uniform(images, seed=drawn))
    batches = Batches(training, settings.batch, mixed_seed(seed, 1), collate, device)
    steps = settings.epochs * len(batches)
    rate = partial(rate_at, total=steps, warm_up=settings.warm_up)
    schedule = LambdaLR(tutor.optimizer, rate)
    losses = fit(tutor, batches, settings.epochs, schedule, every_step=True)
    found, own = (
        evaluate(tutor, Batches(images, settings.batch, 0, as_they_are, device))
        for images in (test, training)
    )
    teacher = tutor.teacher if isinstance(tutor.teacher, LearnedAugmentation) else None
    return Trained(found, losses, teacher, effect, own["test_accuracy"])


def kept(
    teacher: LearnedAugmentation, names: Collection[str], epochs: int
) -> tuple[list[float], list[float]]:
    """The mean keep probability of some operations, and of the others, over epochs."""
    steps, past = teacher.history()
    ends = [(epoch + 1) / epochs * int(teacher.taken) for epoch in range(epochs)]
    last = [max(i for i, step in enumerate(steps) if step <= end) for end in ends]
    these = torch.tensor([name in names for name in teacher.space.operations])
    keep = past[last, :, 0].cpu()
    return keep[:, these].mean(1).tolist(), keep[:, ~these].mean(1).tolist()


def _tutored(
    student: nn.Module,
    policy: str,
    space: str,
    settings: Settings,
    seed: int,
    effect: KeepEffect,
) -> Tutor:
    rule = sgd(student, settings.lr)
    clipped = PlainStep(max_norm=5.0)
    if policy in ("none", "uniform"):
        return Tutor(student, rule, Plain(), seed=seed, step_strategy=clipped)
    teacher = LearnedAugmentation(space).to(next(student.parameters()).device)
    if policy == "random":
        generator = torch.Generator().manual_seed(mixed_seed(seed, 3))
        with torch.no_grad():
            for p in teacher.parameters():
                p.copy_(torch.randn(p.shape, generator=generator))
    learner = Adam(teacher.parameters(), 0.0 if policy in STILL else settings.teacher_lr)
    signal = AlignmentByOperation(effect, permuted=policy == "permuted")
    return Tutor(
        student,
        rule,
        teacher,
        learner,
        signal=signal,
        teacher_every=2,
        seed=seed,
        step_strategy=clipped,
    )


def rate_at(step: int, total: int, warm_up: float) -> float:
    """The learning rate as a share of its highest value."""
    rising = min(1.0, (step + 1) / max(warm_up * total, 1))
    return rising * (1 + cos(pi * step / total)) / 2

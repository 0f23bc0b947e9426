"""Six methods to train on clean labels: three networks, on CIFAR-10 and CIFAR-100.

Fan et al. 2021, Table 1. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.optim import Adam

from papers.fan2021interactions.reweighting import (
    PLAIN,
    Method,
    Settings,
    check_arms,
    inputs_of,
    interactions,
    material_of,
    student_of,
    train,
    train_settings_of,
)
from papers.fan2021interactions.tables import BEST, CLEAN, METRICS, PRINTED_AS
from papers.framework.recipe import Outcome, Recipe, below, curves, expectation
from papers.students import endless
from tutelage.errors import UsageError
from tutelage.losses.objectives import expected_error
from tutelage.losses.probability import Focal
from tutelage.randomness import mixed_seed, seeded
from tutelage.teachers import DynamicLoss, KeepOrDrop, KeepProbability, SelfPaced
from tutelage.training.accuracy_reward import AccuracyGoal, rewarded
from tutelage_cli.claims import Claim
from tutelage_cli.train.evaluation import EVAL_BATCH_SIZE
from tutelage_cli.train.material import open_streams


@dataclass(frozen=True)
class Episodes(Settings):
    """Settings of a job in which some arm learns over whole student runs."""

    episodes: int = 50  # students from which the teacher of L2T-data learns
    goal: float = 0.8  # held-out accuracy for which an episode is rewarded, in (0, 1]
    goal_steps: int = 3500  # student steps after which an episode is given up
    goal_every: int = 50  # student steps between two evaluations
    keep_lr: float = 1e-3  # of the Adam that takes a step after each episode

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.goal <= 1:
            raise UsageError(f"goal is an accuracy in (0, 1], got {self.goal:g}.")
        if self.goal_every > self.goal_steps:
            raise UsageError(
                f"goal_every is {self.goal_every}, but an episode has {self.goal_steps} steps: "
                f"give {self.goal_steps} or less."
            )


def learned_to_keep(seed: int, settings: Episodes, device: torch.device) -> Method:
    """Learn which examples to keep, from new students on the data of the seed."""
    material = material_of(settings, seed)
    inputs = inputs_of(material)
    streams = open_streams(material, train_settings_of(settings), seed, device)
    with seeded(seed):
        teacher = KeepOrDrop(KeepProbability(inputs.classes)).to(device)
    episodes = rewarded(
        lambda number: student_of(settings, inputs, mixed_seed(seed, number), device),
        teacher,
        Adam(teacher.parameters(), settings.keep_lr),
        lambda number: endless(streams.train, mixed_seed(seed, number) % 2**31),
        list(streams.held_out.whole(EVAL_BATCH_SIZE)),
        goal=AccuracyGoal(settings.goal, settings.goal_steps, settings.goal_every),
        decay=0.9,
        seed=seed,
    )
    for _ in islice(episodes, settings.episodes):
        pass
    return Method(lambda *_: teacher, signal=None)


GAMMAS = (0.5, 1.0, 2.0)
KEPT = "l2t-data"
METHODS: Mapping[str, tuple[Method, ...]] = {
    "plain": (PLAIN,),
    "focal": tuple(PLAIN._replace(objective=Focal(gamma)) for gamma in GAMMAS),
    "self-paced": (Method(lambda *_: SelfPaced(), None),),
    KEPT: (),
    "l2t-loss": (
        Method(
            lambda _, inputs: DynamicLoss(inputs.classes),
            metric=expected_error,
            teacher_lr=1e-4,
        ),
    ),
    "interactions": (interactions(),),
}
"""by arm; of several methods, the one with the lowest held-out error counts; L2T-data is
learned first, over many students"""
ROWS = {
    "plain": "Baseline",
    "focal": "Focal loss",
    "self-paced": "SPL",
    KEPT: "L2T-data",
    "l2t-loss": "L2T-loss",
    "interactions": "Ours",
}
"""what the paper calls them"""
Changes = Mapping[str, Mapping[str, Any]]
"""by scale, what differs from ``CLEAN``"""
SMALL: Mapping[str, Any] = {"student": "cnn", "examples": 2000, "augment": "none", "epochs": 20}
"""the small network at mini scale, with steps enough to memorise its images"""
TEN: Changes = {"mini": SMALL, "hours": {"goal": 0.7}}
HUNDRED: Changes = {"mini": {**SMALL, "examples": 5000}}
FEW: Mapping[str, Any] = {"goal_steps": 200, "goal_every": 10, "episodes": 10}
GOALS = {"cifar10": (0.25, 0.8), "cifar100": (0.05, 0.4)}
"""target accuracy of an episode, at mini and gpu scale, and at paper scale"""
TWO = {"goal": 0.1, "goal_steps": 2, "goal_every": 1, "episodes": 2}
SMOKE = {
    "data": "mnist5k",
    "student": "cnn",
    "examples": 40,
    "held_out": 20,
    "tested": 20,
    "augment": "none",
    "batch": 20,
}


def run(arm: str, seed: int, settings: Episodes, device: torch.device) -> Outcome:
    """Train the students of an arm with one seed."""
    methods = (learned_to_keep(seed, settings, device),) if arm == KEPT else METHODS[arm]
    every = [train(method, seed, settings, device) for method in methods]
    best = min(every, key=lambda trained: min(trained.series["held-out error"]))
    errors = best.errors()
    return Outcome({name: errors[name] for name in METRICS | BEST}, best.series)


def _settings(
    data: str, student: str, gpu_student: str, on_cpu: Changes
) -> dict[str, Episodes]:
    soon, late = GOALS[data]
    few: dict[str, Any] = {"data": data, "goal": soon, **FEW}
    changes: Changes = {
        "smoke": SMOKE | TWO,
        **{scale: {**few, **new} for scale, new in on_cpu.items()},
        "gpu": {**few, "student": gpu_student},
        "paper": {"data": data, "goal": late, "student": student},
    }
    return {k: Episodes(**{**asdict(CLEAN[k]), **new}) for k, new in changes.items()}


def _recipe(
    name: str,
    network: str,
    data: str,
    students: tuple[str, str],
    on_cpu: Changes,
    minutes: tuple[int, int],
) -> Recipe:
    # a network on a data set; students at paper and gpu scale; minutes at mini and paper scale
    row = f"{data.upper().replace('CIFAR', 'CIFAR-')} / {network}"
    return Recipe(
        name=name,
        title="With clean labels, deep interactions give the lowest test error of six methods.",
        paper="l2tdi",
        where=f"Table 1, {row}",
        arms=tuple(METHODS),
        metrics=METRICS | BEST,
        settings=_settings(data, *students, on_cpu),
        minutes={"smoke": 0.5, "mini": minutes[0], "gpu": 10, "paper": minutes[1]},
        run=run,
        claims=(
            Claim(
                "Deep interactions give a lower test error than plain training.",
                below("error", "interactions", "plain"),
            ),
            Claim(
                "Deep interactions give a lower test error than focal loss, self-paced "
                "learning, L2T-data and L2T-loss.",
                below("error", "interactions", "focal", "self-paced", KEPT, "l2t-loss"),
            ),
            expectation(
                "With deep interactions, the test error is less than one point above plain "
                "training's.",
                below("error", "interactions", "plain", margin=-1.0),
            ),
        ),
        table="Table 1",
        printed={(arm, "chosen_error"): (row, column) for arm, column in ROWS.items()},
        printed_as=PRINTED_AS,
        plots=(curves("Test error", "%", METHODS, "test error"),),
        prepare=partial(
            check_arms, {arm: methods[0] for arm, methods in METHODS.items() if methods}
        ),
    )


RESNET = ("resnet32", "resnet20")  # students at paper and gpu scale
DEEP, TWENTY = ("resnet110", "resnet32"), {"mini": {"student": "resnet20"}}
WIDE, NARROW = ("wrn-28-10", "wrn-16-2"), {"mini": {"student": "wrn-10-1"}}
"""the same for deeper and wider networks, and what changes at mini scale"""
CIFAR10 = _recipe("interactions-clean", "ResNet-32", "cifar10", RESNET, TEN, (8, 500))
CIFAR10_DEEP = _recipe(
    "interactions-clean-110", "ResNet-110", "cifar10", DEEP, TWENTY, (15, 1500)
)
CIFAR10_WIDE = _recipe(
    "interactions-clean-wrn", "WRN-28-10", "cifar10", WIDE, NARROW, (6, 6000)
)
CIFAR100 = _recipe(
    "interactions-clean-cifar100", "ResNet-32", "cifar100", RESNET, HUNDRED, (20, 500)
)
CIFAR100_DEEP = _recipe(
    "interactions-clean-cifar100-110", "ResNet-110", "cifar100", DEEP, TWENTY, (15, 1500)
)
CIFAR100_WIDE = _recipe(
    "interactions-clean-cifar100-wrn", "WRN-28-10", "cifar100", WIDE, NARROW, (6, 6000)
)

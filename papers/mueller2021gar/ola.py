"""Online learned augmentation (OLA): CIFAR, a hundred digits, and the learned policy.

Müller et al. 2021, Table 2 and section 4. ``CIFAR`` compares OLA with UniformAugment in two
search spaces, and with its own initial policy; ``DIGITS`` tests it where any augmentation
helps; ``POLICY`` tests whether it drops operations that lower its reward. Figures:
``docs/results.md``.
"""

from dataclasses import replace

import numpy as np
import torch

from papers.framework.drawings import scatter
from papers.framework.recipe import (
    Outcome,
    Panel,
    Plot,
    Recipe,
    above,
    below,
    curves,
    expectation,
)
from papers.mueller2021gar.augmented_students import Settings, kept, splits, train
from papers.students import correlation
from tutelage_cli.claims import Claim

SPACES = {"wl": "wide-long", "ra": "standard"}  # the paper's words for search spaces
POLICIES = ("uniform", "learned")
LOSS = "training loss"
CIFARS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
CIFAR_ARMS = (
    *(f"{data}.{how}.{space}" for data in CIFARS for space in SPACES for how in POLICIES),
    "cifar100.frozen.wl",
)
"""data, policy and search space"""


def run_cifar(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student."""
    data, policy, space = arm.split(".")
    trained = train(data, policy, SPACES[space], settings, seed, device)
    return Outcome(trained.test, {"training loss": trained.losses})


TINY = Settings("cnn", examples=40, tested=20, batch=10, epochs=2)
CIFAR_MINI = Settings(
    "cnn", examples=5000, tested=4000, batch=128, epochs=10, lr=0.02, warm_up=0.04, cutout=0
)
CIFAR = Recipe(
    name="ola-cifar",
    title="Online learned augmentation (OLA) is more accurate than a uniform policy.",
    paper="gar",
    where="Table 2",
    arms=CIFAR_ARMS,
    metrics={
        "test_accuracy": "at the end of training, %",
        "test_loss": "at the end of training, nats",
    },
    settings={
        "smoke": Settings("cnn", examples=100, tested=100, batch=50, epochs=2),
        "mini": CIFAR_MINI,
        "gpu": Settings("resnet8", examples=20_000, batch=128, epochs=10, lr=0.1),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 14, "gpu": 10, "paper": 9000},
    run=run_cifar,
    claims=(
        Claim(
            "On CIFAR-100, OLA gives a higher test accuracy than UniformAugment in the wide "
            "space.",
            above("test_accuracy", "cifar100.learned.wl", "cifar100.uniform.wl"),
        ),
        Claim(
            "On CIFAR-100, OLA gives a higher test accuracy than UniformAugment in "
            "RandAugment's space.",
            above("test_accuracy", "cifar100.learned.ra", "cifar100.uniform.ra"),
        ),
        Claim(
            "On CIFAR-10, OLA is less than half a point worse than UniformAugment in both "
            "spaces.",
            above("test_accuracy", "cifar10.learned.wl", "cifar10.uniform.wl", margin=-0.5)
            + above("test_accuracy", "cifar10.learned.ra", "cifar10.uniform.ra", margin=-0.5),
        ),
        expectation(
            "On CIFAR-100 in the wide space, OLA gives a higher test accuracy than with its "
            "initial policy kept fixed.",
            above("test_accuracy", "cifar100.learned.wl", "cifar100.frozen.wl"),
        ),
    ),
    table="Table 2",
    printed={
        (f"{data}.{how}.{space}", "test_accuracy"): (
            f"{name} / {'Method' if how == 'learned' else 'UA Baseline'}",
            f"OLA ({space.upper()})",
        )
        for data, name in CIFARS.items()
        for space in SPACES
        for how in POLICIES
    },
    plots=(
        Plot(
            "Training loss, CIFAR-100, wide space",
            "loss",
            {
                how: (f"cifar100.{how}.wl", "training loss")
                for how in ("uniform", "learned", "frozen")
            },
        ),
    ),
    prepare=lambda _settings: [splits(data) for data in CIFARS],
)


SPACE = "wide-long"
DIGITS_ARMS = ("none", "uniform", "frozen", "random", "learned", "permuted")
"""policies, as of ``augmented_students.train``"""
MOVES = (
    *("rotate", "shear_x", "shear_y", "translate_x", "translate_y"),
    *("flip_lr", "flip_ud"),
)
"""geometric operations"""


def run_digits(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student, without other crops and flips."""
    trained = train("mnist5k", arm, SPACE, settings, seed, device, moved=False)
    series = {"training loss": trained.losses}
    if trained.teacher is not None:
        moves, others = kept(trained.teacher, MOVES, settings.epochs)
        series |= {"moves": moves, "others": others}
    return Outcome(trained.test | {"train_accuracy": trained.fitted}, series)


HUNDRED = Settings(examples=100, tested=1000, batch=32, epochs=400)
SMALL_CNN = replace(HUNDRED, student="cnn", lr=0.01, warm_up=0.04, cutout=0, teacher_lr=0.05)
DIGITS = Recipe(
    name="ola-digits",
    title="With a hundred training images, OLA is more accurate than fixed augmentation.",
    paper="gar",
    where="Section 4, online learned augmentation; the data are ours",
    arms=DIGITS_ARMS,
    metrics={
        "test_accuracy": "at the end of training, %",
        "test_loss": "at the end of training, nats",
        "train_accuracy": "on the training images without augmentation, at the end of "
        "training, %",
    },
    settings={
        "smoke": TINY,
        "mini": SMALL_CNN,
        "gpu": replace(HUNDRED, student="resnet8", lr=0.05),
        "paper": replace(HUNDRED, epochs=1000),
    },
    minutes={"smoke": 0.2, "mini": 10, "gpu": 10, "paper": 300},
    run=run_digits,
    claims=(
        expectation(
            "OLA gives a higher test accuracy than no augmentation.",
            above("test_accuracy", "learned", "none"),
        ),
        expectation(
            "OLA gives a higher test accuracy than the same steps with its initial, uniform "
            "policy.",
            above("test_accuracy", "learned", "frozen"),
        ),
        expectation(
            "OLA gives a higher test accuracy than UniformAugment at every step.",
            above("test_accuracy", "learned", "uniform"),
        ),
        expectation(
            "OLA gives a higher test accuracy than policies drawn at random.",
            above("test_accuracy", "learned", "random"),
        ),
        expectation(
            "OLA gives a higher test accuracy than policies that learn from the rewards of "
            "other examples.",
            above("test_accuracy", "learned", "permuted"),
        ),
    ),
    plots=(
        Plot(
            "Keep probability",
            "probability",
            {
                f"{arm}, {name}": (arm, series)
                for arm in ("learned", "permuted")
                for name, series in (("geometric", "moves"), ("others", "others"))
            },
        ),
        curves("Training loss", "loss", ("none", "frozen", "learned", "permuted"), LOSS),
    ),
    prepare=lambda _settings: splits("mnist5k"),
)


HARSH = ("invert", "solarize", "equalize", "flip_ud", "posterize")
"""operations that change the appearance of an image strongly at many strengths"""


def run_policy(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with its policy."""
    trained = train("cifar10", arm, SPACE, settings, seed, device)
    teacher = trained.teacher
    assert teacher is not None
    logits = teacher.keep.detach().double().cpu()
    effect = trained.effect.difference(len(logits))
    policy, levels = teacher.policy(), np.arange(teacher.space.levels)
    metrics = {
        "keep_correlation": correlation(logits, torch.from_numpy(effect), constant=0.0),
        "keep_spread": float(logits.std(correction=0)),
        "mean_operations": float(policy.how_many @ np.arange(1, teacher.most + 1)),
        "mean_level": float((policy.strength @ levels)[teacher.space.has_strength].mean()),
        "test_accuracy": trained.test["test_accuracy"],
        "test_loss": trained.test["test_loss"],
    }
    harsh, others = kept(teacher, HARSH, settings.epochs)
    series = {"harsh": harsh, "others": others, "training loss": trained.losses}
    drawing = scatter(
        effect.tolist(),
        logits.tolist(),
        ("mean reward if kept minus if dropped", "keep logit"),
        colours=["harsh" if op in HARSH else "other" for op in teacher.space.operations],
        colour="operation",
    )
    return Outcome(metrics, series, {"operations": drawing})


POLICY = Recipe(
    name="ola-policy",
    title="OLA keeps the operations for which its rewards are higher.",
    paper="gar",
    where="Section 4, online learned augmentation",
    arms=("learned", "permuted"),
    metrics={
        "keep_correlation": "correlation of the final keep logits with the measured effect of "
        "keeping on the reward of the same run, over operations",
        "keep_spread": "standard deviation of the keep logits over operations",
        "mean_operations": "expected number of operations per image, kept or not, 1 to 4",
        "mean_level": "expected level of operations that have one, 0 to 30; 15 initially",
        "test_accuracy": "at the end of training, %",
        "test_loss": "at the end of training, nats",
    },
    settings={
        "smoke": TINY,
        "mini": replace(CIFAR_MINI, epochs=20, teacher_lr=0.05),
        "gpu": Settings("resnet8", examples=20_000, batch=128, epochs=15, lr=0.1),
        "paper": Settings(),
    },
    minutes={"smoke": 0.2, "mini": 6, "gpu": 6, "paper": 1000},
    run=run_policy,
    claims=(
        expectation(
            "The final keep logits correlate by more than 0.7 with the measured effect of "
            "keeping each operation on the reward.",
            above("keep_correlation", "learned", 0.7),
        ),
        expectation(
            "If every example is given the reward of another, that correlation is between "
            "-0.5 and 0.5, although the policy changes there, too: the spread of the keep "
            "logits is above 0.1.",
            below("keep_correlation", "permuted", 0.5)
            + above("keep_correlation", "permuted", -0.5)
            + above("keep_spread", "permuted", 0.1),
        ),
    ),
    plots=(
        Panel("Operations of the arm learned", "learned", "operations"),
        Panel("Operations of the arm permuted", "permuted", "operations"),
        Plot(
            "Keep probability",
            "probability",
            {
                f"{arm}, {series}": (arm, series)
                for arm in ("learned", "permuted")
                for series in ("harsh", "others")
            },
        ),
    ),
    prepare=lambda _settings: splits("cifar10"),
)

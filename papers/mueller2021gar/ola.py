"""Augmentation learned along with a student (OLA): CIFAR, a hundred digits, and the policy.

Müller et al. 2021, Table 2 and section 4. ``CIFAR`` compares OLA with UniformAugment in two
search spaces, and with its own start; ``DIGITS`` whether it pays where any augmentation helps;
``POLICY`` whether it drops the operations whose reward says so. Figures: ``docs/results.md``.
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
    title="Augmentation learned along with a student does better than a fixed uniform one.",
    paper="gar",
    where="Table 2",
    arms=CIFAR_ARMS,
    metrics={"test_accuracy": "at the end, %", "test_loss": "at the end, nats"},
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
            "On CIFAR-100, OLA does better than UniformAugment in the wide space.",
            above("test_accuracy", "cifar100.learned.wl", "cifar100.uniform.wl"),
        ),
        Claim(
            "And in the space of RandAugment.",
            above("test_accuracy", "cifar100.learned.ra", "cifar100.uniform.ra"),
        ),
        Claim(
            "On CIFAR-10 it is no worse in either space, by more than half a point.",
            above("test_accuracy", "cifar10.learned.wl", "cifar10.uniform.wl", margin=-0.5)
            + above("test_accuracy", "cifar10.learned.ra", "cifar10.uniform.ra", margin=-0.5),
        ),
        expectation(
            "It does better than its own policy left as it starts, every other step plain.",
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
"""operations that take pixels to other places"""


def run_digits(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student, neither cropped nor mirrored otherwise."""
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
    title="With a hundred images, augmentation learned on the way does better than fixed.",
    paper="gar",
    where="Section 4, online learned augmentation; the data are ours",
    arms=DIGITS_ARMS,
    metrics={
        "test_accuracy": "at the end, %",
        "test_loss": "at the end, nats",
        "train_accuracy": "on the training images as they are, at the end, %",
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
            "A policy that is learned on the way does better than no augmentation.",
            above("test_accuracy", "learned", "none"),
        ),
        expectation(
            "Than the same steps with its policy left uniform.",
            above("test_accuracy", "learned", "frozen"),
        ),
        expectation(
            "Than UniformAugment at every step.", above("test_accuracy", "learned", "uniform")
        ),
        expectation(
            "Than policies drawn at random.", above("test_accuracy", "learned", "random")
        ),
        expectation(
            "Than policies that learn from other examples' rewards.",
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
                for name, series in (("moves of pixels", "moves"), ("others", "others"))
            },
        ),
        curves("Training loss", "loss", ("none", "frozen", "learned", "permuted"), LOSS),
    ),
    prepare=lambda _settings: splits("mnist5k"),
)


HARSH = ("invert", "solarize", "equalize", "flip_ud", "posterize")
"""operations that leave little of what an image looks like at many strengths"""


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
        ("mean reward where kept less where dropped", "keep logit"),
        colours=["harsh" if op in HARSH else "other" for op in teacher.space.operations],
        colour="operation",
    )
    return Outcome(metrics, series, {"operations": drawing})


POLICY = Recipe(
    name="ola-policy",
    title="A learned augmentation keeps the operations that its rewards speak for.",
    paper="gar",
    where="Section 4, online learned augmentation",
    arms=("learned", "permuted"),
    metrics={
        "keep_correlation": "of the final keep logits with the run's own measured effect of "
        "keeping, over operations",
        "keep_spread": "standard deviation of the keep logits over operations",
        "mean_operations": "expected operations for an image, kept or not, 1 to 4",
        "mean_level": "expected level of operations that have one, 0 to 30; 15 at first",
        "test_accuracy": "at the end, %",
        "test_loss": "at the end, nats",
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
            "The keep logits end up in the order of what keeping each operation was measured "
            "to do to the reward.",
            above("keep_correlation", "learned", 0.7),
        ),
        expectation(
            "They do not where every example is handed another one's reward, though the policy "
            "moves there, too.",
            below("keep_correlation", "permuted", 0.5)
            + above("keep_correlation", "permuted", -0.5)
            + above("keep_spread", "permuted", 0.1),
        ),
    ),
    plots=(
        Panel("Learned: every operation", "learned", "operations"),
        Panel("By rewards of others", "permuted", "operations"),
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

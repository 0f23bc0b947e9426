"""OLA against UniformAugment on CIFAR, in two search spaces, and against its own start.

Müller et al. 2021, Table 2. Figures: ``docs/results.md``.
"""

import torch

from papers.framework.recipe import Outcome, Plot, Recipe, above, expectation
from papers.mueller2021gar.augmented_students import Settings, splits, train
from tutelage_cli.claims import Claim

SPACES = {"wl": "wide-long", "ra": "standard"}  # the paper's words for search spaces
HOWS = ("uniform", "learned")
DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
ARMS = (
    *(f"{data}.{how}.{space}" for data in DATA for space in SPACES for how in HOWS),
    "cifar100.frozen.wl",
)
"""data, policy and search space"""


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student."""
    data, policy, space = arm.split(".")
    trained = train(data, policy, SPACES[space], settings, seed, device)
    return Outcome(trained.test, {"training loss": trained.losses})


MINI = Settings(
    "cnn", examples=5000, tested=4000, batch=128, epochs=10, lr=0.02, warm_up=0.04, cutout=0
)
RECIPE = Recipe(
    name="ola-cifar",
    title="Augmentation learned along with a student does better than a fixed uniform one.",
    paper="gar",
    where="Table 2",
    arms=ARMS,
    metrics={"test_accuracy": "at the end, %", "test_loss": "at the end, nats"},
    settings={
        "smoke": Settings("cnn", examples=100, tested=100, batch=50, epochs=2),
        "mini": MINI,
        "gpu": Settings("resnet8", examples=20_000, batch=128, epochs=10, lr=0.1),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 14, "gpu": 10, "paper": 9000},
    run=run,
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
        for data, name in DATA.items()
        for space in SPACES
        for how in HOWS
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
    prepare=lambda _settings: [splits(data) for data in DATA],
)

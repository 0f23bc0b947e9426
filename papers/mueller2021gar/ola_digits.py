"""Whether OLA pays: a hundred digits, learned by heart, where any augmentation helps.

Müller et al. 2021, section 4, on data of our own choice. Figures: ``docs/results.md``.
"""

import torch

from papers.framework.recipe import Outcome, Plot, Recipe, above, expectation
from papers.mueller2021gar.augmented_students import Settings, kept, splits, train

DATA, SPACE = "mnist5k", "wide-long"
ARMS = ("none", "uniform", "frozen", "random", "learned", "permuted")
"""policies, as of ``augmented_students.train``"""
MOVES = (
    *("rotate", "shear_x", "shear_y", "translate_x", "translate_y"),
    *("flip_lr", "flip_ud"),
)
"""operations that take pixels to other places"""


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student, neither cropped nor mirrored otherwise."""
    trained = train(DATA, arm, SPACE, settings, seed, device, moved=False)
    series = {"training loss": trained.losses}
    if trained.teacher is not None:
        moves, others = kept(trained.teacher, MOVES, settings.epochs)
        series |= {"moves": moves, "others": others}
    return Outcome(trained.test | {"train_accuracy": trained.fitted}, series)


RECIPE = Recipe(
    name="ola-digits",
    title="With a hundred images, augmentation learned on the way does better than fixed.",
    paper="gar",
    where="Section 4, online learned augmentation; the data are ours",
    arms=ARMS,
    metrics={
        "test_accuracy": "at the end, %",
        "test_loss": "at the end, nats",
        "train_accuracy": "on the training images as they are, at the end, %",
    },
    settings={
        "smoke": Settings("cnn", examples=40, tested=20, batch=10, epochs=2),
        "mini": Settings(
            "cnn",
            examples=100,
            tested=1000,
            batch=32,
            epochs=400,
            lr=0.01,
            warm_up=0.04,
            cutout=0,
            teacher_lr=0.05,
        ),
        "gpu": Settings("resnet8", examples=100, tested=1000, batch=32, epochs=400, lr=0.05),
        "paper": Settings(examples=100, tested=1000, batch=32, epochs=1000),
    },
    minutes={"smoke": 0.2, "mini": 10, "gpu": 10, "paper": 300},
    run=run,
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
                "learned, moves of pixels": ("learned", "moves"),
                "learned, others": ("learned", "others"),
                "permuted, moves of pixels": ("permuted", "moves"),
                "permuted, others": ("permuted", "others"),
            },
        ),
        Plot(
            "Training loss",
            "loss",
            {arm: (arm, "training loss") for arm in ("none", "frozen", "learned", "permuted")},
        ),
    ),
    prepare=lambda _settings: splits(DATA),
)

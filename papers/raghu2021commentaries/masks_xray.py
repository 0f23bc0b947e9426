"""Masks of chest X-rays that are learned jointly with a student.

Raghu et al. 2021, section 5, Figure 6: CheXpert, cardiomegaly. The paper shows images with
masks and prints no number. Figures: ``docs/results.md``.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from papers.data.published.chexpert import read_chexpert
from papers.framework.recipe import Outcome, Panel, Recipe, below, better, curves, expectation
from papers.raghu2021commentaries.masks_table import (
    Centres,
    Settings,
    learned_centres,
    mask_drawing,
    masked,
    masks_in_arm,
    random_centres,
)
from papers.students import ImageParts
from tutelage.randomness import mixed_seed
from tutelage_cli.claims import Claim
from tutelage_cli.data.images import ThreeParts
from tutelage_cli.data.local import KNOWN, load_known
from tutelage_cli.data.resize import Size
from tutelage_cli.data.splits import balanced_rows

ARMS = ("learned", "permuted", "random", "centre")
SIZE = Size(320, 200)  # of CheXpert's images, pixels
SMALL = Settings(
    data="pneumoniamnist",
    sigma=4.0,
    student="cnn",
    train=1000,
    held_out=400,
    tested=468,
    batch=32,
    joint_epochs=6,
    joint_lr=1e-3,
    epochs=6,
    lr=0.01,
    drops=(0.6, 0.85),
    mirrored=False,
)


def parts_of(settings: Settings, seed: int) -> ImageParts:
    """Images of one seed; every part has as many with the finding as without."""
    rows_seed = mixed_seed(seed, 0)
    if settings.data in KNOWN:
        splits = load_known(settings.data)
        whole, test = splits.train, splits.test
        chosen, others = balanced_rows(whole.labels, settings.held_out, 2, seed=rows_seed)
        train, held_out = whole.rows(others), whole.rows(chosen)
    else:
        chexpert = _chexpert(settings.data, mixed_seed(seed, 1))
        train, held_out, test = (part.images for part in chexpert)
        held_out = held_out.rows(
            balanced_rows(held_out.labels, settings.held_out, 2, seed=rows_seed)[0]
        )
    train = train.rows(balanced_rows(train.labels, settings.train, 2, seed=rows_seed)[0])
    return ImageParts(
        train, held_out, test.rows(balanced_rows(test.labels, settings.tested, 2, seed=0)[0])
    )


@cache
def _chexpert(folder: str, seed: int) -> ThreeParts:
    # a tenth of the patients is held out
    return read_chexpert(Path(folder), "Cardiomegaly", SIZE, held_out=0.1, seed=seed)


@cache
def _learned(settings: Settings, seed: int, run: int, device: torch.device) -> Centres:
    # centres of the masks of one of two independent runs on the same images
    return learned_centres(parts_of(settings, seed), settings, mixed_seed(seed, run), device)


def spread_of(centres: Tensor, other_run: Tensor) -> dict[str, float]:
    """How centres vary from image to image, and from one run to another."""
    spread = (centres - centres.mean(0)).square().sum(1).mean().sqrt()
    return {
        "row": float(centres[:, 0].mean()),
        "column": float(centres[:, 1].mean()),
        "spread": float(spread),
        "apart": float((centres - other_run).norm(dim=1).mean()),
    }


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train the new student of one arm, on one masked region of every image."""
    parts = parts_of(settings, seed)
    learned, other_run = (_learned(settings, seed, run, device) for run in (0, 1))
    masks = masks_in_arm(arm, parts, learned, settings.sigma, seed)
    random = random_centres(parts.test, mixed_seed(seed, 10))
    centres = masks.test if isinstance(masks, Centres) else random
    outcome = masked(parts, masks, settings, seed, device)
    metrics = {**outcome.metrics, **spread_of(centres, other_run.test)}
    drawing = mask_drawing(parts.test, centres, settings.sigma)
    drawings = {"masks": drawing} if arm == "learned" else {}
    return outcome._replace(metrics=metrics, drawings=drawings)


RECIPE = Recipe(
    name="commentaries-masks-xray",
    title="Learned masks select the region of a chest X-ray that shows a finding.",
    paper="commentaries",
    where="Figure 6, CheXpert",
    arms=ARMS,
    metrics={
        "test_accuracy": "on class-balanced test images, %",
        "test_loss": "on the same images, nats",
        "row": "row of the mask centre, mean over test images, pixels from 0",
        "column": "column of the mask centre, mean over test images, pixels from 0",
        "spread": "root mean squared distance of the mask centres from their mean, pixels",
        "apart": "mean distance of the mask centre from that of an independent run on the "
        "same image, pixels",
    },
    settings={
        "smoke": replace(SMALL, train=20, held_out=20, tested=20, joint_epochs=1, epochs=1),
        "mini": SMALL,
        "gpu": replace(
            SMALL,
            student="resnet18-cifar",
            train=1600,
            held_out=600,
            joint_epochs=60,
            joint_lr=1e-4,
            epochs=20,
        ),
        "paper": Settings(
            "CheXpert-v1.0-small",
            sigma=50.0,
            student="resnet18",
            train=40_000,
            held_out=4_000,
            tested=132,
            mirrored=False,
        ),
    },
    minutes={"smoke": 0.5, "mini": 2, "gpu": 10, "paper": 1500},
    run=run,
    claims=(
        Claim(
            "Learned masks keep what distinguishes the classes: they give a higher test "
            "accuracy and a lower test loss than random masks.",
            better("learned", "random"),
        ),
        Claim(
            "Masks depend on the image: the mask centres of two independent runs are closer "
            "on the same image than on different images.",
            below("apart", "learned", "permuted"),
        ),
        expectation(
            "Masks are specific to their image: learned masks give a higher test accuracy and "
            "a lower test loss than the same masks permuted over images.",
            better("learned", "permuted"),
        ),
        expectation(
            "Learned masks give a higher test accuracy and a lower test loss than masks in "
            "the middle of the image.",
            better("learned", "centre"),
        ),
    ),
    plots=(
        Panel("Test images, masks and masked images", "learned", "masks"),
        curves("Training loss of new students", "nats", ARMS, "training loss"),
    ),
    prepare=lambda settings: parts_of(settings, 0),
)

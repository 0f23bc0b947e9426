"""Ten crops of each ImageNet image, weighed by their losses, and three ResNets.

Yi et al. 2021, Table 5. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch

from papers.framework.recipe import Outcome, Recipe
from papers.yi2021mmel.copied_images import BASELINE, Way
from papers.yi2021mmel.cropped_images import MADE, METRICS, Settings, parts, trained
from tutelage_cli.claims import Claim, Comparison

DEPTHS = (18, 34, 50)
WAYS: Mapping[str, Way] = {"one": BASELINE, "hard": Way("hard"), "soft": Way("soft")}
COLUMNS = {"one": "Baseline(DA)", "hard": "MMEL-H", "soft": "MMEL-S"}
ARMS = {f"resnet{depth}.{way}": (depth, way) for depth in DEPTHS for way in WAYS}
SMALL = Settings(
    classes=10, examples=500, side=32, copies=4, batch=50, epochs=10, lr=0.02, workers=0
)


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed."""
    depth, way = ARMS[arm]
    return trained(f"resnet{depth}", WAYS[way], seed, settings, device)


def _compared(way: str, side: Literal["above", "below"]) -> tuple[Comparison, ...]:
    return tuple(
        Comparison((f"resnet{n}.{way}", "accuracy"), side, (f"resnet{n}.one", "accuracy"))
        for n in DEPTHS
    )


RECIPE = Recipe(
    name="mmel-imagenet",
    title="On ImageNet hard weights over ten crops help, and soft ones do harm.",
    paper="mmel",
    where="Table 5, ImageNet",
    arms=tuple(ARMS),
    metrics=METRICS,
    settings={
        "smoke": replace(
            SMALL, folder=MADE, classes=None, examples=6, copies=3, batch=3, epochs=1
        ),
        "mini": SMALL,
        "gpu": Settings(
            classes=20, examples=6000, side=112, copies=4, epochs=12, bfloat16=True, workers=16
        ),
        "paper": Settings(),
    },
    minutes={"smoke": 0.3, "mini": 21, "gpu": 10, "paper": 600_000},
    run=run,
    claims=(
        Claim(
            "Ten crops weighed by their losses do better than one, with every ResNet.",
            _compared("hard", "above"),
        ),
        Claim(
            "The soft loss does worse than one crop: its targets come of a model that is wrong "
            "about many images.",
            _compared("soft", "below"),
        ),
    ),
    table="Table 5",
    printed={
        (arm, "accuracy"): (f"ImageNet / ResNet{depth}", COLUMNS[way])
        for arm, (depth, way) in ARMS.items()
    },
    prepare=parts,
    notes=(
        "All scales but smoke need a folder with train and val, laid out like ImageNet: "
        "imagenet in $TUTELAGE_DATA, or --set folder=PATH. val may be flat, as published, with "
        "the development kit beside it. Nothing has been measured at any scale: no such set "
        "comes with the package.",
        "one: a random crop of 8 to 100% of the image, of 3:4 to 4:3, scaled to 224 pixels and "
        "mirrored or not, in every epoch, as torchvision's own models were trained, whose "
        "accuracies the paper's baselines are. hard and soft: the middle of the image and nine "
        "such crops, each cut from the image as it is stored.",
        "The paper says that the learning rate falls after 30, 60 and 90 epochs; 0.2 is its "
        "factor elsewhere, 0.1 and a weight decay of 1e-4 are usual and taken here (--set "
        "decay=0.2).",
        "A step of the paper's has 2,560 rows of 224 pixels, and has not been tried on a card. "
        "--set micro_batch=256 shows the student so many at a time, with the weights of all "
        "and batch statistics of those alone; --set bfloat16=true halves what a row takes. A "
        "job that is stopped begins anew.",
        "Smoke has images of stripes that the recipe makes. Mini takes 500 images of the "
        "folder's first ten classes, 32 pixels and 10 epochs, its minutes reckoned from an "
        "epoch on 50 images and one on 100; gpu takes 6,000 of 20 classes, 112 pixels and 12 "
        "epochs, and nobody has run it.",
    ),
)

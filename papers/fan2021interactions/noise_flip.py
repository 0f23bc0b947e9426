"""Labels flipped to two other classes: weights from the student's internal state and label.

Fan et al. 2021, Table 6, the column of 40% on CIFAR-10. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from functools import partial

import torch

from papers.fan2021interactions.noise_columns import DIGITS, THREE_ERRORS, Column
from papers.fan2021interactions.reweighting import PLAIN, TRUST, Settings, Way, ready, train
from papers.fan2021interactions.reweighting_ways import (
    MENTOR_NET,
    META_WEIGHT_NET,
    interactions,
    margin_loss,
)
from papers.fan2021interactions.tables import BEST, METRICS
from papers.framework.recipe import Outcome, Plot, Recipe
from tutelage_cli.claims import Claim, Comparison

WAYS: Mapping[str, Way] = {
    "plain": PLAIN,
    "interactions": interactions(),
    "interactions-centred": interactions(level="centred"),
    "margin-loss": margin_loss("free"),
    "margin-loss-centred": margin_loss("centred"),
    "meta-weight-net": META_WEIGHT_NET,
    "mentornet": MENTOR_NET,
}


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed."""
    trained = train(WAYS[arm], seed, settings, device)
    found = trained.trust()
    return Outcome(trained.errors() | {k: found[k] for k in TRUST}, trained.series)


def _better(arm: str) -> tuple[Comparison, ...]:
    return (
        Comparison((arm, "error"), "below", ("plain", "error")),
        Comparison((arm, "weight_wrong"), "below", (arm, "weight_right")),
    )


COLUMN = Column("Table 6", "cifar10", "flip2:0.4", Settings())
RECIPE = Recipe(
    name="interactions-noise-flip",
    title="Weights from the internal state lower the error of students with flipped labels.",
    paper="l2tdi",
    where=COLUMN.where,
    arms=tuple(WAYS),
    metrics=METRICS
    | BEST
    | {
        "weight_right": "mean weight of rightly labelled images at the end, before rescaling",
        "weight_wrong": "the same of wrongly labelled ones",
        "auroc": "chance that a wrong label weighs less than a right one",
    },
    settings=COLUMN.settings(DIGITS),
    minutes={"smoke": 0.5, "mini": 5, "gpu": 10, "paper": 300},
    run=run,
    claims=(
        Claim(
            "The paper's teacher, of the internal state and the label, lowers the error of "
            "plain training under the same schedule, and weighs wrong labels less.",
            _better("interactions"),
        ),
        Claim(
            "A teacher of margin and loss, which can tell whether label and prediction agree, "
            "does so too.",
            _better("margin-loss"),
            of_paper=False,
        ),
        Claim(
            "Where the level of the weights is held, its error is lower than where it is free.",
            (Comparison(("margin-loss-centred", "error"), "below", ("margin-loss", "error")),),
            of_paper=False,
        ),
    ),
    table=COLUMN.table,
    printed=COLUMN.cells(),
    plots=(
        Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),
        Plot(
            "Test error, the level free or held",
            "%",
            {a: (a, "test error") for a in ("margin-loss", "margin-loss-centred")},
        ),
    ),
    prepare=partial(ready, WAYS),
    notes=(
        "At mini scale, 3,500 digits, the small network, and a teacher step every 5 student "
        "steps: the settings of tutelage train, which had been run with seeds 0 to 2 before "
        "this recipe was written, and were not changed. The printed numbers are CIFAR-10's.",
        "With seeds 0 to 4, the comparison of a held level with a free one was undecided; "
        "seeds 5 to 9 of these two arms were run after that, with nothing else changed.",
        "The paper does not say how its teacher is optimised or started: here by Adam, from "
        "equal weights. Batch 100, weight decay 5e-4 and 1,000 clean held-out images as in "
        "Meta-Weight-Net, from which the paper takes most of its settings.",
        "The printed rows of Baseline, MentorNet and Meta-Weight-Net seem to be quoted from "
        "the Meta-Weight-Net paper, whose baseline had another schedule.",
        "MentorNet is the predefined curriculum; its weights at the end go by the percentile "
        "that it had reached.",
        THREE_ERRORS,
    ),
)

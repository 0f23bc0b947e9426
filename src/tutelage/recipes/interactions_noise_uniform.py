"""Labels drawn anew from all classes.

Fan et al. 2021, Table 5. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping

import torch

from tutelage.recipes.interactions_noise_flip import MINI, SMOKE
from tutelage.recipes.interactions_tables import METRICS, below, measured, read, spoilt
from tutelage.recipes.reweighting import PLAIN, Settings, Way
from tutelage.recipes.reweighting_ways import (
    MENTOR_NET,
    META_WEIGHT_NET,
    interactions,
    margin_loss,
)
from tutelage.reproduction.claims import Claim
from tutelage.reproduction.recipe import Outcome, Plot, Recipe

WAYS: Mapping[str, Way] = {
    "plain": PLAIN,
    "interactions": interactions(),
    "margin-loss": margin_loss("centred"),
    "meta-weight-net": META_WEIGHT_NET,
    "mentornet": MENTOR_NET,
}


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed.

    Args:
        arm: One of ``WAYS``.
        seed: Of data, student and order.
        settings: The scale's.
        device: Where.

    Returns:
        Test errors.
    """
    return measured(WAYS[arm], seed, settings, device)


RECIPE = Recipe(
    name="interactions-noise-uniform",
    title="Weights from the internal state lower the error of students with random labels.",
    paper="l2tdi",
    where="Table 5",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings=spoilt(
        {
            "smoke": SMOKE,
            "mini": MINI,
            "gpu": Settings(
                student="resnet20", examples=9000, epochs=20, every=5, teacher_lr=0.02
            ),
            "paper": Settings(student="wrn-28-10", epochs=40, decay_at=(36 / 40, 38 / 40)),
        },
        noise="uniform:0.4",
    ),
    minutes={"smoke": 0.5, "mini": 4, "gpu": 10, "paper": 600},
    run=run,
    claims=(
        Claim(
            "The paper's teacher lowers the error of plain training.",
            below("interactions", "plain"),
        ),
        Claim("So does one of margin and loss.", below("margin-loss", "plain"), of_paper=False),
    ),
    table="Table 5",
    printed={
        (arm, "error"): (f"CIFAR-10 / {row}", "p=40%")
        for arm, row in {
            "plain": "Baseline",
            "interactions": "Ours",
            "meta-weight-net": "Meta-Weight-Net",
            "mentornet": "MentorNet",
        }.items()
    },
    plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
    prepare=read,
    notes=(
        "The true class is among those drawn: at p = 40%, 36% of the labels are wrong.",
        "Settings at mini scale are those of interactions-noise-flip: digits, where the "
        "printed numbers are CIFAR-10's.",
        "p = 60% and CIFAR-100 are the same with other settings, and not run here.",
    ),
)

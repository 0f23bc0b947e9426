"""Labels that people gave: CIFAR-10N, whoever of three was wrong.

Fan et al. 2021, Table 6, with other noise. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from papers.fan2021interactions.reweighting import PLAIN, Way, ready
from papers.fan2021interactions.reweighting_ways import interactions, margin_loss
from papers.fan2021interactions.tables import (
    CLEAN,
    METRICS,
    below,
    measured,
    spoilt,
)
from papers.framework.recipe import Plot, Recipe
from tutelage_cli.claims import Claim

WAYS: Mapping[str, Way] = {
    "plain": PLAIN,
    "interactions": interactions(),
    "margin-loss": margin_loss("centred"),
}


RECIPE = Recipe(
    name="interactions-human-noise",
    title="Weights from the internal state lower the error of students with labels of people.",
    paper="l2tdi",
    where="Table 6, with other noise",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings=spoilt(
        {
            **CLEAN,
            "mini": replace(
                CLEAN["mini"], student="cnn", examples=5000, augment="none", epochs=20
            ),
        },
        noise="human:worst",
    ),
    minutes={"smoke": 0.5, "mini": 3, "gpu": 10, "paper": 130},
    run=partial(measured, WAYS),
    claims=(
        Claim(
            "The paper's teacher lowers the error of plain training, as with drawn noise.",
            below("interactions", "plain"),
            of_paper=False,
        ),
        Claim("So does one of margin and loss.", below("margin-loss", "plain"), of_paper=False),
    ),
    plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
    prepare=partial(ready, WAYS),
    notes=(
        "At mini scale, 5,000 images and 20 epochs of the small network without augmentation, "
        "so that wrong labels are learnt by heart: a pilot on ResNet-8 with augmentation, "
        "which had learnt nothing by heart after 15 epochs, showed no gain.",
        "The paper draws its noise; here 40% of the labels are those that people got wrong "
        "(Wei et al. 2022).",
    ),
)

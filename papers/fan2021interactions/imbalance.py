"""Classes of very different size, judged by held-out images in balance.

Not in Fan et al. 2021, whose teacher it is. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from functools import partial

from papers.fan2021interactions.noise_columns import DIGITS, SMOKE
from papers.fan2021interactions.reweighting import PLAIN, Settings, Way, ready
from papers.fan2021interactions.reweighting_ways import interactions, margin_loss
from papers.fan2021interactions.tables import METRICS, below, measured, spoilt
from papers.framework.recipe import Plot, Recipe
from tutelage_cli.claims import Claim

WAYS: Mapping[str, Way] = {
    "plain": PLAIN,
    "M0": interactions("M0"),
    "interactions": interactions(),
    "margin-loss": margin_loss("centred"),
}


RECIPE = Recipe(
    name="interactions-imbalance",
    title="Weights judged by balanced images lower the error where classes are long-tailed.",
    paper="l2tdi",
    where="not in the paper",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings=spoilt(
        {
            "smoke": SMOKE,
            "mini": DIGITS,
            "gpu": Settings(student="resnet20", epochs=20, every=5, teacher_lr=0.02),
            "paper": Settings(),
        },
        noise="none",
        imbalance=100.0,
    ),
    minutes={"smoke": 0.5, "mini": 2, "gpu": 10, "paper": 130},
    run=partial(measured, WAYS),
    claims=(
        Claim(
            "The paper's teacher lowers the error of plain training, as with wrong labels.",
            below("interactions", "plain"),
            of_paper=False,
        ),
        Claim("So does a teacher of the label alone.", below("M0", "plain"), of_paper=False),
    ),
    plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
    prepare=partial(ready, WAYS),
    notes=(
        "The first class has 100 times as many images as the last, by geometric steps; the "
        "paper has no such experiment.",
        "At mini scale, digits and the small network.",
    ),
)

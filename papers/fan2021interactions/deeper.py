"""The student's gradient goes through the weights, too.

Fan et al. 2021, Section 4.3. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from functools import partial

from papers.fan2021interactions.reweighting import PLAIN, Way, ready
from papers.fan2021interactions.reweighting_ways import interactions
from papers.fan2021interactions.tables import (
    CHOSEN,
    CLEAN,
    METRICS,
    UNDER_FITTED,
    below,
    measured,
)
from papers.framework.recipe import Plot, Recipe
from tutelage_cli.claims import Claim

WAYS: Mapping[str, Way] = {
    "plain": PLAIN,
    "interactions": interactions(),
    "deeper": interactions(deep=True),
}


RECIPE = Recipe(
    name="interactions-deeper",
    title="With dw/dtheta in the student's gradient, deep interactions do a little better.",
    paper="l2tdi",
    where="Section 4.3",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings=CLEAN,
    minutes={"smoke": 0.5, "mini": 3, "gpu": 10, "paper": 130},
    run=partial(measured, WAYS),
    claims=(
        Claim(
            "The deeper interaction does better than the usual one.",
            below("deeper", "interactions"),
        ),
        Claim(
            "It does no worse than plain training.",
            below("deeper", "plain", margin=-1.0),
            of_paper=False,
        ),
    ),
    table="Sec 4.3",
    printed={
        ("deeper", "chosen_error"): (
            "deeper interaction (dw/dtheta enabled), I0+M0",
            "Error rate",
        )
    },
    plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
    prepare=partial(ready, WAYS),
    notes=(
        UNDER_FITTED,
        CHOSEN,
    ),
)

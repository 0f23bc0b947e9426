"""How often the teacher steps (K), and how far it looks back (B).

Fan et al. 2021, Table 8. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from papers.fan2021interactions.reweighting import PLAIN, Way, ready
from papers.fan2021interactions.reweighting_ways import interactions
from papers.fan2021interactions.tables import (
    CHOSEN,
    CLEAN,
    METRICS,
    below,
    measured,
)
from papers.framework.recipe import Plot, Recipe
from tutelage_cli.claims import Claim

SCHEDULES = ((1, 1), (20, 2), (20, 5), (100, 2), (100, 5))
"""K and B"""
WAYS: Mapping[str, Way] = {
    "plain": PLAIN,
    **{f"K{k}.B{b}": interactions(every=k, look_back=b) for k, b in SCHEDULES},
}


RECIPE = Recipe(
    name="interactions-schedule",
    title="A teacher may step every 20 student steps, and look back over 2.",
    paper="l2tdi",
    where="Table 8",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings={
        **CLEAN,
        "mini": replace(CLEAN["mini"], student="cnn", examples=2000, augment="none", epochs=20),
    },
    minutes={"smoke": 0.5, "mini": 6, "gpu": 10, "paper": 400},
    run=partial(measured, WAYS),
    claims=(
        Claim("K = 20, B = 2 does better than a step at a time.", below("K20.B2", "K1.B1")),
        Claim(
            "It does no worse than plain training.",
            below("K20.B2", "plain", margin=-1.0),
            of_paper=False,
        ),
    ),
    table="Table 8",
    printed={
        (f"K{k}.B{b}", "chosen_error"): (f"K={k},B={b}", "Test error") for k, b in SCHEDULES
    },
    plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
    prepare=partial(ready, WAYS),
    notes=(
        CHOSEN,
        "At mini scale, 2,000 images and 20 epochs of the small network, 400 steps in all: the "
        "teacher steps 20 times at K = 20 and 4 times at K = 100.",
    ),
)

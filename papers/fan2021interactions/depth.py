"""How deep the teacher is: linear, one hidden layer, two.

Fan et al. 2021, Table 4. Figures: ``docs/results.md``.
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
    **{f"MLP-{k}": interactions(hidden_layers=k) for k in range(3)},
}


RECIPE = Recipe(
    name="interactions-depth",
    title="A linear teacher of deep interactions does better than deeper ones.",
    paper="l2tdi",
    where="Table 4",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings=CLEAN,
    minutes={"smoke": 0.5, "mini": 4, "gpu": 10, "paper": 130},
    run=partial(measured, WAYS),
    claims=(
        Claim(
            "The linear teacher does better than one or two hidden layers.",
            below("MLP-0", "MLP-1", "MLP-2"),
        ),
        Claim(
            "It does no worse than plain training.",
            below("MLP-0", "plain", margin=-1.0),
            of_paper=False,
        ),
    ),
    table="Table 4",
    printed={(f"MLP-{k}", "chosen_error"): (f"MLP-{k}", "Error rate") for k in range(3)},
    plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
    prepare=partial(ready, WAYS),
    notes=(
        UNDER_FITTED,
        CHOSEN,
        "Hidden layers are as wide as the input.",
    ),
)

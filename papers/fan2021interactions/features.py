"""What the teacher is shown: internal states, the label, surface facts.

Fan et al. 2021, Tables 2 and 3. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from functools import partial

from papers.fan2021interactions.reweighting import PLAIN, Way, ready
from papers.fan2021interactions.reweighting_ways import FEATURES, interactions
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
    **{name: interactions(name) for name in FEATURES},
}


RECIPE = Recipe(
    name="interactions-features",
    title="Shown the internal state and the label, a teacher does best.",
    paper="l2tdi",
    where="Tables 2 and 3",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings=CLEAN,
    minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 300},
    run=partial(measured, WAYS),
    claims=(
        Claim(
            "Internal state and label together do better than either alone, and than surface "
            "facts.",
            below("I0+M0", "I0", "M0", "M1", "M0+M1"),
        ),
        Claim(
            "They do no worse than plain training.",
            below("I0+M0", "plain", margin=-1.0),
            of_paper=False,
        ),
        Claim(
            "Earlier internal states serve about as well.",
            below("I1+M0", "I0+M0", margin=-1.0) + below("I3+M0", "I0+M0", margin=-1.0),
        ),
    ),
    table="Table 2",
    printed={
        (name, "chosen_error"): (name, "Error rate")
        for name in ("I0+M0", "I0", "M0", "M1", "M0+M1", "I0+M0+M1")
    },
    plots=(Plot("Test error", "%", {arm: (arm, "test error") for arm in WAYS}),),
    prepare=partial(ready, WAYS),
    notes=(
        UNDER_FITTED,
        CHOSEN,
        "Table 3 prints 6.22, 6.31 and 6.21% for I1, I2 and I3 with M0; each is here the "
        "flattened output of a stage, since I1, averaged over its pixels, would be I0.",
    ),
)

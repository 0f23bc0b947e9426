"""Copies of texts, all alike, or weighed by their losses.

Yi et al. 2021, Table 3 and Figure 2. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from functools import partial

from papers.framework.recipe import Plot, Recipe
from papers.yi2021mmel.glue_students import METRICS, Settings, Way, trained
from papers.yi2021mmel.labels import GPU, MINI, SMALL, SMOKE, compared, prepare
from tutelage_cli.claims import Claim

WAYS: Mapping[str, Way] = {
    name: Way(name) for name in ("none", "smoothed", "long", "uniform", "hard", "soft")
}
ROWS = {
    "none": "Dev / Baseline",
    "long": "Dev / Baseline(DA+Long)",
    "uniform": "Dev / Baseline(DA+UNI)",
    "hard": "Dev / MMEL-H",
    "soft": "Dev / MMEL-S",
}


RECIPE = Recipe(
    name="mmel-glue",
    title="Copies of texts weighed by their losses do better than copies all alike.",
    paper="mmel",
    where="Table 3, SST-2; Figure 2",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings={"smoke": SMOKE, "mini": MINI, "gpu": GPU, "paper": Settings()},
    minutes={"smoke": 0.3, "mini": 8, "gpu": 10, "paper": 1300},
    run=partial(trained, WAYS),
    claims=(
        Claim(
            "Copies weighed by their losses score above copies all alike, and above none.",
            tuple(
                compared(arm, than, "score")
                for arm in ("hard", "soft")
                for than in ("uniform", "none")
            ),
        ),
        Claim(
            "Hard weights give a lower held-out loss than uniform ones.",
            (compared("hard", "uniform", "loss"),),
            of_paper=False,
        ),
        Claim(
            "Their score is not worse than that by more than 1.5 points.",
            (compared("hard", "uniform", "score", -1.5),),
            of_paper=False,
        ),
        Claim(
            "Their loss is below that of smoothed labels without copies.",
            (compared("hard", "smoothed", "loss"),),
            of_paper=False,
        ),
    ),
    table="Table 3",
    printed={(arm, "score"): (row, "SST-2") for arm, row in ROWS.items()},
    plots=(
        Plot("Held-out accuracy", "%", {arm: (arm, "score") for arm in WAYS}),
        Plot("Held-out loss", "nats", {arm: (arm, "loss") for arm in WAYS}),
    ),
    prepare=prepare,
    notes=(
        "All copies have labels that a student of the same seed predicts, see mmel-labels. "
        "long: copies are texts among others, so that an epoch has as many more steps.",
        *SMALL,
    ),
)

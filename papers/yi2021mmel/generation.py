"""How copies of texts are made: search, share of words, sentences of a pair alone or as one.

Yi et al. 2021, Table 6. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import torch

from papers.framework.recipe import Outcome, Recipe
from papers.yi2021mmel.glue_students import METRICS, Settings, Way, trained
from papers.yi2021mmel.glue_texts import Source
from papers.yi2021mmel.labels import GPU, MINI, SMALL, SMOKE, compared, prepare
from tutelage_cli.claims import Claim


class Made(NamedTuple):
    """How copies are weighed, and made."""

    loss: str
    search: str
    separate: bool
    share: float

    @property
    def arm(self) -> str:
        """Its name."""
        pair = "apart" if self.separate else "as-one"
        return f"{self.loss}.{self.search}.{pair}.{self.share:g}"

    @property
    def row(self) -> str:
        """Of the paper's table."""
        method = {"hard": "MMEL-H", "soft": "MMEL-S"}[self.loss]
        said = f"separate={self.separate} / replace={self.share:g}"
        return f"{method} / {self.search.capitalize()} / {said}"


MADE = {
    made.arm: made
    for made in (
        Made(*facts)
        for facts in product(("hard", "soft"), ("greedy", "beam"), (True, False), (0.2, 0.4))
    )
}
PAIRS: Mapping[str, Settings] = {
    "smoke": replace(SMOKE, source=replace(SMOKE.source, examples=8, tested=8)),
    "mini": replace(
        MINI, source=replace(MINI.source, task="mrpc", examples=400, longest=64), epochs=4
    ),
    "gpu": replace(GPU, source=replace(GPU.source, task="mrpc", examples=None, longest=128)),
    "paper": Settings(source=Source(task="mrpc")),
}


WAYS = {"none": Way("none")} | {arm: Way(made.loss) for arm, made in MADE.items()}


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed."""
    if arm in MADE:
        made = MADE[arm]
        changed = {"search": made.search, "separate": made.separate, "share": made.share}
        settings = replace(settings, source=replace(settings.source, **changed))
    return trained(WAYS, arm, seed, settings, device)


RECIPE = Recipe(
    name="mmel-generation",
    title="However copies of texts are made, students of them do better than without.",
    paper="mmel",
    where="Table 6, MRPC",
    arms=("none", *MADE),
    metrics=METRICS,
    settings=PAIRS,
    minutes={"smoke": 0.5, "mini": 15, "gpu": 10, "paper": 1500},
    run=run,
    claims=(
        Claim(
            "Students of copies score above one without, however copies are made.",
            tuple(compared(arm, "none", "score") for arm in MADE),
        ),
        Claim(
            "Their held-out loss is lower.",
            tuple(compared(arm, "none", "loss") for arm in MADE),
            of_paper=False,
        ),
    ),
    table="Table 6",
    printed={("none", "score"): ("Baseline", "MRPC")}
    | {(arm, "score"): (made.row, "MRPC") for arm, made in MADE.items()},
    prepare=prepare,
    notes=(
        "MRPC, whose texts are pairs: apart, the language model sees each sentence by itself; "
        "as-one, both. Copies have labels that a student of the same seed predicts.",
        "At mini scale 400 texts of at most 64 tokens and 4 epochs, in which a student from "
        "nothing hardly learns more than the share of the classes.",
        *SMALL,
    ),
)

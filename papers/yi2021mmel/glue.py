"""Copies of texts: their labels, their weights in the loss, and how they are generated.

Yi et al. 2021, Tables 3, 4 and 6 and Figure 2. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import torch

from papers.framework.recipe import Outcome, Recipe, above, below, curves, expectation
from papers.models.minilm import MINILM
from papers.yi2021mmel.glue_students import METRICS, Method, Settings, student_of, trained
from papers.yi2021mmel.glue_texts import Source, copies_of, material
from papers.yi2021mmel.language_models import Language
from tutelage_cli.claims import Claim

LABELS = ("original", "predicted")
LOSSES = {"uniform": "", "hard": "MMEL-H", "soft": "MMEL-S"}
LABEL_METHODS: Mapping[str, Method] = {
    "none": Method("none"),
    "smoothed": Method("smoothed"),
} | {f"{loss}.{labels}": Method(loss, labels) for loss in LOSSES for labels in LABELS}
SMOKE = Settings(
    source=Source(
        task="wnli",
        examples=24,
        tested=24,
        longest=16,
        copies=2,
        model="",
        language=Language(words=300, steps=2, batch=4, longest=16, sentences=200),
    ),
    epochs=1,
    lr=1e-3,
)
MINI = Settings(
    source=Source(examples=1000, longest=32, copies=2, model=""), epochs=8, lr=1e-3, warm_up=50
)
"""a Transformer encoder of two layers, trained from scratch"""
GPU = replace(
    MINI,
    source=Source(
        examples=10_000, longest=64, model="", language=Language(steps=4000, batch=256)
    ),
)


PRETRAINED = Settings(
    source=Source(
        examples=2000,
        longest=64,
        model=MINILM,
        new_head=True,
        language=Language(steps=500, batch=32, lr=3e-4, longest=24),
        vectors=True,
    ),
    epochs=10,
    lr=1e-3,
    warm_up=50,
)
"""a perceptron on sentence vectors of MiniLM; copies by the same encoder with a new masked-LM
head"""
SCALES = {"smoke": SMOKE, "mini": MINI, "hours": PRETRAINED, "gpu": GPU, "paper": Settings()}
"""settings of ``mmel-labels`` and ``mmel-glue``"""


def prepare(settings: Settings) -> None:
    """Make the copies before any job; raises if the student's model is missing."""
    copies_of(settings.source)
    student_of(settings, material(settings.source), 0)


LABELLED = Recipe(
    name="mmel-labels",
    title="Copies of texts give a higher score with predicted labels than with original ones.",
    paper="mmel",
    where="Table 4, SST-2",
    arms=tuple(LABEL_METHODS),
    metrics=METRICS,
    settings=SCALES,
    minutes={"smoke": 0.3, "mini": 8, "gpu": 10, "paper": 1500},
    run=partial(trained, LABEL_METHODS),
    claims=(
        Claim(
            "Predicted labels give a higher score than original labels, with hard and with "
            "soft weights.",
            above("score", "hard.predicted", "hard.original")
            + above("score", "soft.predicted", "soft.original"),
        ),
        expectation(
            "Predicted labels give a lower held-out loss than original labels, with uniform "
            "and with hard weights.",
            below("loss", "uniform.predicted", "uniform.original")
            + below("loss", "hard.predicted", "hard.original"),
        ),
        expectation(
            "Predicted labels with hard weights give a lower held-out loss than label "
            "smoothing without copies.",
            below("loss", "hard.predicted", "smoothed"),
        ),
    ),
    table="Table 4",
    printed={
        (f"{loss}.{labels}", "score"): (f"{method} / {labels.capitalize()}", "SST-2")
        for loss, method in LOSSES.items()
        if method
        for labels in LABELS
    },
    plots=(
        curves("Held-out loss", "nats", LABEL_METHODS, "loss"),
        curves("Held-out accuracy", "%", LABEL_METHODS, "score"),
    ),
    prepare=prepare,
)


METHODS: Mapping[str, Method] = {
    name: Method(name) for name in ("none", "smoothed", "long", "uniform", "hard", "soft")
}
ROWS = {
    "none": "Dev / Baseline",
    "long": "Dev / Baseline(DA+Long)",
    "uniform": "Dev / Baseline(DA+UNI)",
    "hard": "Dev / MMEL-H",
    "soft": "Dev / MMEL-S",
}


WEIGHED = Recipe(
    name="mmel-glue",
    title="Copies of texts weighted by their losses score higher than with uniform weights.",
    paper="mmel",
    where="Table 3, SST-2; Figure 2",
    arms=tuple(METHODS),
    metrics=METRICS,
    settings=SCALES,
    minutes={"smoke": 0.3, "mini": 8, "gpu": 10, "paper": 1300},
    run=partial(trained, METHODS),
    claims=(
        Claim(
            "Copies weighted by their losses, hard or soft, give a higher score than copies "
            "with uniform weights, and than no copies.",
            above("score", "hard", "uniform", "none")
            + above("score", "soft", "uniform", "none"),
        ),
        expectation(
            "Hard weights give a lower held-out loss than uniform weights.",
            below("loss", "hard", "uniform"),
        ),
        expectation(
            "The score of hard weights is less than 1.5 points below that of uniform weights.",
            above("score", "hard", "uniform", margin=-1.5),
        ),
        expectation(
            "Hard weights give a lower held-out loss than label smoothing without copies.",
            below("loss", "hard", "smoothed"),
        ),
    ),
    table="Table 3",
    printed={(arm, "score"): (row, "SST-2") for arm, row in ROWS.items()},
    plots=(
        curves("Held-out accuracy", "%", METHODS, "score"),
        curves("Held-out loss", "nats", METHODS, "loss"),
    ),
    prepare=prepare,
)


class CopyVariant(NamedTuple):
    """How copies are weighted, and how they are generated."""

    loss: str
    search: str
    separate: bool
    share: float

    @property
    def arm(self) -> str:
        """The name of its arm."""
        pair = "apart" if self.separate else "as-one"
        return f"{self.loss}.{self.search}.{pair}.{self.share:g}"

    @property
    def row(self) -> str:
        """Its row in the paper's table."""
        method = {"hard": "MMEL-H", "soft": "MMEL-S"}[self.loss]
        how = f"separate={self.separate} / replace={self.share:g}"
        return f"{method} / {self.search.capitalize()} / {how}"


VARIANTS = {
    variant.arm: variant
    for variant in (
        CopyVariant(*values)
        for values in product(("hard", "soft"), ("greedy", "beam"), (True, False), (0.2, 0.4))
    )
}
FEW_PAIRS = replace(
    MINI, source=replace(MINI.source, task="mrpc", examples=400, longest=64), epochs=4
)
PAIRS: Mapping[str, Settings] = {
    "smoke": replace(SMOKE, source=replace(SMOKE.source, examples=8, tested=8)),
    "mini": FEW_PAIRS,
    "hours": replace(
        PRETRAINED,
        source=replace(
            PRETRAINED.source,
            task="mrpc",
            examples=400,
            longest=96,
            copies=FEW_PAIRS.source.copies,
        ),
    ),
    "gpu": replace(GPU, source=replace(GPU.source, task="mrpc", examples=None, longest=128)),
    "paper": Settings(source=Source(task="mrpc")),
}


VARIANT_METHODS = {"none": Method("none")} | {
    arm: Method(variant.loss) for arm, variant in VARIANTS.items()
}


def run_generation(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed."""
    if arm in VARIANTS:
        variant = VARIANTS[arm]
        changed = {name: getattr(variant, name) for name in ("search", "separate", "share")}
        settings = replace(settings, source=replace(settings.source, **changed))
    return trained(VARIANT_METHODS, arm, seed, settings, device)


GENERATED = Recipe(
    name="mmel-generation",
    title="Copies of texts raise the score, however they are generated.",
    paper="mmel",
    where="Table 6, MRPC",
    arms=("none", *VARIANTS),
    metrics=METRICS,
    settings=PAIRS,
    minutes={"smoke": 0.5, "mini": 15, "gpu": 10, "paper": 1500},
    run=run_generation,
    claims=(
        Claim(
            "Students have a higher score with copies than without, for every way to generate "
            "them.",
            tuple(c for arm in VARIANTS for c in above("score", arm, "none")),
        ),
        expectation(
            "Students have a lower held-out loss with copies than without, for every way to "
            "generate them.",
            tuple(c for arm in VARIANTS for c in below("loss", arm, "none")),
        ),
    ),
    table="Table 6",
    printed={("none", "score"): ("Baseline", "MRPC")}
    | {(arm, "score"): (variant.row, "MRPC") for arm, variant in VARIANTS.items()},
    prepare=prepare,
)

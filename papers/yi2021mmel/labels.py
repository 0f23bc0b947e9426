"""Whether copies of texts keep their labels or get those that a trained model predicts.

Yi et al. 2021, Table 4. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from papers.framework.recipe import Plot, Recipe
from papers.yi2021mmel.glue_students import METRICS, Settings, Way, student_of, trained
from papers.yi2021mmel.glue_texts import Source, material, read
from papers.yi2021mmel.language_models import Language
from tutelage_cli.claims import Claim, Comparison

LABELS = ("original", "predicted")
LOSSES = {"uniform": "", "hard": "MMEL-H", "soft": "MMEL-S"}
WAYS: Mapping[str, Way] = {
    "none": Way("none"),
    "smoothed": Way("smoothed"),
} | {f"{loss}.{labels}": Way(loss, labels) for loss in LOSSES for labels in LABELS}
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
    source=Source(examples=1000, longest=32, copies=2, model=""),
    epochs=8,
    lr=1e-3,
    warm_up=50,
)
"""a student of two layers, from nothing"""
GPU = replace(
    MINI,
    source=Source(
        examples=10_000, longest=64, model="", language=Language(steps=4000, batch=256)
    ),
)
SMALL = (
    "At mini and gpu scale, SST-2 with new students of two layers of 128, since no pretrained "
    "model comes with the package; copies come from a masked language model of the same size "
    "that learns from 20,000 of the task's sentences. AdamW begins at 1e-3 after 50 steps of "
    "warm-up. --set source.model=FOLDER takes a pretrained one for both, with --set "
    "student=small for copies alone; then --set lr=3e-5 --set warm_up=0 are the paper's.",
    "At paper scale BERT-base makes copies and is the student: bert-base-uncased in "
    "$TUTELAGE_DATA, or --set source.model=FOLDER. 10 epochs, 3 of QQP and MNLI; dropout of "
    "0.1, where the paper chose 0 or 0.1 for each task (--set dropout=0). This has been run "
    "with tiny models alone.",
    "Mini: 1,000 texts of at most 32 tokens, 2 copies, 8 epochs, chosen by trials with another "
    "program: there predicted labels lowered the loss and changed no accuracy.",
    "Texts and copies are the same for all seeds. Gradients are clipped at norm 1, as is usual "
    "with BERT; the paper does not say. Texts have 128 tokens at most at paper scale.",
    "Other tasks are the same with --set source.task=cola (mrpc, rte, stsb); QQP, MNLI and "
    "QNLI as folders of parquet files.",
)


def prepare(settings: Settings) -> object:
    """Make the copies before any job, and see whether there is a student."""
    copies = read(settings.source)
    student_of(settings, material(settings.source), 0)
    return copies


def compared(arm: str, than: str, metric: str, margin: float = 0.0) -> Comparison:
    """One arm does better than another."""
    side = "below" if metric == "loss" else "above"
    return Comparison((arm, metric), side, (than, metric), margin)


def _predicted(metric: str, *losses: str) -> tuple[Comparison, ...]:
    return tuple(compared(f"{x}.predicted", f"{x}.original", metric) for x in losses)


RECIPE = Recipe(
    name="mmel-labels",
    title="Copies of texts do better with labels that a trained model predicts for them.",
    paper="mmel",
    where="Table 4, SST-2",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings={"smoke": SMOKE, "mini": MINI, "gpu": GPU, "paper": Settings()},
    minutes={"smoke": 0.3, "mini": 8, "gpu": 10, "paper": 1500},
    run=partial(trained, WAYS),
    claims=(
        Claim(
            "Predicted labels give better scores than original ones, hard and soft.",
            _predicted("score", "hard", "soft"),
        ),
        Claim(
            "They give a lower held-out loss, uniform and hard.",
            _predicted("loss", "uniform", "hard"),
            of_paper=False,
        ),
        Claim(
            "That is more than smoothed labels without copies give.",
            (compared("hard.predicted", "smoothed", "loss"),),
            of_paper=False,
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
        Plot("Held-out loss", "nats", {arm: (arm, "loss") for arm in WAYS}),
        Plot("Held-out accuracy", "%", {arm: (arm, "score") for arm in WAYS}),
    ),
    prepare=prepare,
    notes=(
        "predicted: soft labels by a student of the same seed that was trained without copies; "
        "originals keep their labels. The soft loss takes them where they name another class "
        "for a copy than for its original. none and smoothed (by 0.1) see no copies.",
        *SMALL,
    ),
)

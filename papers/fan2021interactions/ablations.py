"""Ablations of a teacher of deep interactions: a table or section of the paper each.

Fan et al. 2021, Tables 2 to 4, 6 and 8 and Section 4.3, and long-tailed classes, which the
paper does not have. Figures: ``docs/results.md``.
"""

from dataclasses import replace

from papers.fan2021interactions.noise import DIGITS, GPU, SMOKE
from papers.fan2021interactions.reweighting import (
    FEATURES,
    PLAIN,
    TRUST,
    Settings,
    interactions,
    margin_loss,
)
from papers.fan2021interactions.tables import (
    CLEAN,
    METRICS,
    no_worse,
    table_recipe,
    with_changes,
)
from papers.framework.recipe import above, below, expectation
from tutelage_cli.claims import Claim

DEEPER = table_recipe(
    {"plain": PLAIN, "interactions": interactions(), "deeper": interactions(attached=True)},
    name="interactions-deeper",
    title="Keeping dw/dtheta in the student's gradient lowers the test error slightly.",
    where="Section 4.3",
    settings=CLEAN,
    minutes={"smoke": 0.5, "mini": 3, "gpu": 10, "paper": 130},
    claims=(
        Claim(
            "The deeper interaction (dw/dtheta kept) gives a lower test error than the usual "
            "one.",
            below("error", "deeper", "interactions"),
        ),
        no_worse("deeper", "the deeper interaction"),
    ),
    table="Sec 4.3",
    printed={
        ("deeper", "chosen_error"): (
            "deeper interaction (dw/dtheta enabled), I0+M0",
            "Error rate",
        )
    },
)

DEPTH = table_recipe(
    {"plain": PLAIN, **{f"MLP-{k}": interactions(hidden_layers=k) for k in range(3)}},
    name="interactions-depth",
    title="A linear teacher gives a lower test error than teachers with hidden layers.",
    where="Table 4",
    settings=CLEAN,
    minutes={"smoke": 0.5, "mini": 4, "gpu": 10, "paper": 130},
    claims=(
        Claim(
            "The linear teacher gives a lower test error than teachers with one or two hidden "
            "layers.",
            below("error", "MLP-0", "MLP-1", "MLP-2"),
        ),
        no_worse("MLP-0", "the linear teacher"),
    ),
    table="Table 4",
    printed={(f"MLP-{k}", "chosen_error"): (f"MLP-{k}", "Error rate") for k in range(3)},
)

SHOWN = table_recipe(
    {"plain": PLAIN, **{name: interactions(name) for name in FEATURES}},
    name="interactions-features",
    title="A teacher of internal state and label has the lowest test error.",
    where="Tables 2 and 3",
    settings=CLEAN,
    minutes={"smoke": 0.5, "mini": 8, "gpu": 10, "paper": 300},
    claims=(
        Claim(
            "Internal state and label together give a lower test error than either alone, and "
            "than surface features (M1), alone or with the label.",
            below("error", "I0+M0", "I0", "M0", "M1", "M0+M1"),
        ),
        no_worse("I0+M0", "internal state and label"),
        Claim(
            "With earlier internal states (I1, I3), the test error is less than one point "
            "above that with I0.",
            below("error", "I1+M0", "I0+M0", margin=-1.0)
            + below("error", "I3+M0", "I0+M0", margin=-1.0),
        ),
    ),
    table="Table 2",
    printed={
        (name, "chosen_error"): (name, "Error rate")
        for name in ("I0+M0", "I0", "M0", "M1", "M0+M1", "I0+M0+M1")
    },
)

SCHEDULES = ((1, 1), (20, 2), (20, 5), (100, 2), (100, 5))
"""student steps between two teacher steps, K, and steps that its gradient looks back over, B"""
SCHEDULE = table_recipe(
    {
        "plain": PLAIN,
        **{f"K{k}.B{b}": interactions(every=k, look_back=b) for k, b in SCHEDULES},
    },
    name="interactions-schedule",
    title="A teacher step every 20 student steps that looks back over 2 is enough.",
    where="Table 8",
    settings={
        **CLEAN,
        "mini": replace(CLEAN["mini"], student="cnn", examples=2000, augment="none", epochs=20),
    },
    minutes={"smoke": 0.5, "mini": 6, "gpu": 10, "paper": 400},
    claims=(
        Claim(
            "K = 20, B = 2 gives a lower test error than K = 1, B = 1.",
            below("error", "K20.B2", "K1.B1"),
        ),
        no_worse("K20.B2", "K = 20, B = 2"),
    ),
    table="Table 8",
    printed={
        (f"K{k}.B{b}", "chosen_error"): (f"K={k},B={b}", "Test error") for k, b in SCHEDULES
    },
)

PEOPLE = replace(CLEAN["mini"], student="cnn", examples=5000, augment="none", epochs=20)
HUMAN_NOISE = table_recipe(
    {"plain": PLAIN, "interactions": interactions(), "margin-loss": margin_loss("centred")},
    name="interactions-human-noise",
    title="Weights from the internal state lower the test error with human label noise.",
    where="Table 6, with other noise",
    settings=with_changes({**CLEAN, "mini": PEOPLE}, noise="human:worst"),
    minutes={"smoke": 0.5, "mini": 3, "gpu": 10, "paper": 130},
    claims=(
        expectation(
            "The paper's teacher gives a lower test error than plain training.",
            below("error", "interactions", "plain"),
        ),
        expectation(
            "A teacher of margin and loss gives a lower test error than plain training.",
            below("error", "margin-loss", "plain"),
        ),
    ),
)

SHOWN_FLIPPED = {
    "smoke": SMOKE,
    "mini": replace(CLEAN["hours"], every=5, teacher_lr=0.02),
    "gpu": GPU,
    "paper": Settings(),
}
AGREEMENT = table_recipe(
    {
        "plain": PLAIN,
        "paper": interactions(level="centred")._replace(every=20, teacher_lr=1e-3),
        "I0+M0": interactions(level="centred"),
        "hidden": interactions(hidden_layers=1, level="centred"),
        "margin-loss": margin_loss("centred"),
    },
    name="interactions-agreement",
    title="With flipped labels, the inputs of a teacher matter, not whether it is linear.",
    where="not in the paper",
    settings=with_changes(SHOWN_FLIPPED, noise="flip2:0.4"),
    metrics=METRICS | TRUST,
    minutes={"smoke": 0.5, "mini": 3, "gpu": 10, "paper": 300},
    claims=(
        expectation(
            "With the paper's K and learning rate, the paper's teacher lowers the test error "
            "by more than half a point.",
            below("error", "paper", "plain", margin=0.5),
        ),
        expectation(
            "With a teacher step every 5 student steps and 20 times the learning rate, the "
            "paper's teacher lowers the test error by more than half a point.",
            below("error", "I0+M0", "plain", margin=0.5),
        ),
        expectation(
            "A hidden layer, with which a teacher can express whether internal state and "
            "label agree, gives a lower test error than the linear teacher.",
            below("error", "hidden", "I0+M0"),
        ),
        expectation(
            "A teacher of margin and loss, which contain that agreement, gives a lower test "
            "error than the linear teacher and the one with a hidden layer, and its weights "
            "separate wrong labels with a higher AUROC.",
            below("error", "margin-loss", "I0+M0", "hidden")
            + above("auroc", "margin-loss", "I0+M0", "hidden"),
        ),
    ),
)

LONG_TAILED = {
    "smoke": SMOKE,
    "mini": DIGITS,
    "gpu": Settings(student="resnet20", epochs=20, every=5, teacher_lr=0.02),
    "paper": Settings(),
}
IMBALANCE = table_recipe(
    {
        "plain": PLAIN,
        "M0": interactions("M0"),
        "interactions": interactions(),
        "margin-loss": margin_loss("centred"),
    },
    name="interactions-imbalance",
    title="Weights learned from balanced held-out images lower the long-tailed test error.",
    where="not in the paper",
    settings=with_changes(LONG_TAILED, noise="none", imbalance=100.0),
    minutes={"smoke": 0.5, "mini": 2, "gpu": 10, "paper": 130},
    claims=(
        expectation(
            "The paper's teacher gives a lower test error than plain training.",
            below("error", "interactions", "plain"),
        ),
        expectation(
            "A teacher of the label alone gives a lower test error than plain training.",
            below("error", "M0", "plain"),
        ),
    ),
)

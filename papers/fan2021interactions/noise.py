"""Wrong labels of CIFAR-10 and CIFAR-100: flipped to two other classes, or drawn from all.

Fan et al. 2021, Tables 5 and 6. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace

from papers.fan2021interactions.reweighting import (
    MENTOR_NET,
    META_WEIGHT_NET,
    PLAIN,
    TRUST,
    Method,
    Settings,
    interactions,
    margin_loss,
)
from papers.fan2021interactions.tables import BEST, METRICS, table_recipe
from papers.framework.recipe import Recipe, below, curves, expectation
from tutelage_cli.claims import Claim, Comparison

OTHERS = {"meta-weight-net": META_WEIGHT_NET, "mentornet": MENTOR_NET}
METHODS: Mapping[str, Method] = {
    "plain": PLAIN,
    "interactions": interactions(),
    "margin-loss": margin_loss("centred"),
    **OTHERS,
}
ROWS = {
    "plain": "Baseline",
    "interactions": "Ours",
    "meta-weight-net": "Meta-Weight-Net",
    "mentornet": "MentorNet",
}
"""rows of the paper's tables by arm"""
DIGITS = Settings(
    data="mnist5k",
    student="cnn",
    held_out=500,
    augment="none",
    epochs=12,
    teacher_lr=0.02,
    every=5,
)
"""the settings of ``tutelage train``"""
HUNDRED = replace(DIGITS, data="cifar100", examples=5000, epochs=20)
"""for a hundred classes at mini scale"""
SMOKE = replace(DIGITS, examples=40, held_out=20, tested=20, batch=20, epochs=1, every=2)
GPU = Settings(student="resnet20", examples=9000, epochs=20, every=5, teacher_lr=0.02)


def _column(table: str, data: str, noise: str, mini: Settings, paper: Settings) -> dict:
    # the fields of a recipe that follow from where the paper prints its numbers
    images, rate = data.upper().replace("CIFAR", "CIFAR-"), f"p={float(noise[-3:]):.0%}"
    gpu, paper = (replace(settings, data=data) for settings in (GPU, paper))
    scales = {"smoke": SMOKE, "mini": mini, "gpu": gpu, "paper": paper}
    return {
        "where": f"{table}, {images}, {rate}",
        "table": table,
        "printed": {(arm, "error"): (f"{images} / {row}", rate) for arm, row in ROWS.items()},
        "settings": {name: replace(scale, noise=noise) for name, scale in scales.items()},
    }


def _recipe(name: str, title: str, column: dict, minutes: tuple[int, int]) -> Recipe:
    # the paper's four rows, and the teacher of margin and loss; minutes at mini and paper scale
    lowers = Claim(
        "The paper's teacher gives a lower test error than plain training.",
        below("error", "interactions", "plain"),
    )
    so_does = expectation(
        "A teacher of margin and loss gives a lower test error than plain training.",
        below("error", "margin-loss", "plain"),
    )
    return table_recipe(
        METHODS,
        metrics=METRICS | BEST,
        name=name,
        title=title,
        minutes={"smoke": 0.5, "mini": minutes[0], "gpu": 10, "paper": minutes[1]},
        claims=(lowers, so_does),
        **column,
    )


FLIP_20 = _recipe(
    "interactions-noise-flip-20",
    "Weights from the internal state lower the test error with 20% flipped labels.",
    _column("Table 6", "cifar10", "flip2:0.2", DIGITS, Settings()),
    (4, 215),
)
FLIP_CIFAR100 = _recipe(
    "interactions-noise-flip-cifar100",
    "Weights from the internal state lower the error with 40% flipped labels, CIFAR-100.",
    _column("Table 6", "cifar100", "flip2:0.4", HUNDRED, Settings()),
    (6, 215),
)
FLIP_CIFAR100_20 = _recipe(
    "interactions-noise-flip-cifar100-20",
    "Weights from the internal state lower the error with 20% flipped labels, CIFAR-100.",
    _column("Table 6", "cifar100", "flip2:0.2", HUNDRED, Settings()),
    (6, 215),
)
WIDE = Settings(student="wrn-28-10", epochs=40, decay_at=(36 / 40, 38 / 40))
UNIFORM = _recipe(
    "interactions-noise-uniform",
    "Weights from the internal state lower the test error with uniform label noise.",
    _column("Table 5", "cifar10", "uniform:0.4", DIGITS, WIDE),
    (4, 600),
)

FLIP_METHODS: Mapping[str, Method] = {
    "plain": PLAIN,
    "interactions": interactions(),
    "interactions-centred": interactions(level="centred"),
    "margin-loss": margin_loss("free"),
    "margin-loss-centred": margin_loss("centred"),
    **OTHERS,
}


def _better(arm: str) -> tuple[Comparison, ...]:
    weighs_wrong_less = below("weight_wrong", arm, (arm, "weight_right"))
    return below("error", arm, "plain") + weighs_wrong_less


FLIP = table_recipe(
    FLIP_METHODS,
    name="interactions-noise-flip",
    title="Weights from the internal state lower the test error with 40% flipped labels.",
    metrics=METRICS | BEST | TRUST,
    minutes={"smoke": 0.5, "mini": 5, "gpu": 10, "paper": 300},
    claims=(
        Claim(
            "The paper's teacher of internal state and label gives a lower test error than "
            "plain training with the same schedule, and gives wrong labels lower weights than "
            "right ones.",
            _better("interactions"),
        ),
        expectation(
            "A teacher of margin and loss, which can express whether label and prediction "
            "agree, gives a lower test error than plain training, and gives wrong labels lower "
            "weights than right ones.",
            _better("margin-loss"),
        ),
        expectation(
            "With a held level of the weights, a teacher of margin and loss gives a lower "
            "test error than with a free one.",
            below("error", "margin-loss-centred", "margin-loss"),
        ),
    ),
    plots=(
        curves("Test error", "%", FLIP_METHODS, "test error"),
        curves(
            "Test error, level free or held",
            "%",
            ("margin-loss", "margin-loss-centred"),
            "test error",
        ),
    ),
    **_column("Table 6", "cifar10", "flip2:0.4", DIGITS, Settings()),
)

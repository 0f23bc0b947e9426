"""How many copies of each image it takes.

Yi et al. 2021, Table 2. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from papers.framework.recipe import Recipe
from papers.yi2021mmel.copied_images import BASELINE, METRICS, Settings, Way, read, trained
from papers.yi2021mmel.table1 import DIGITS, above
from tutelage_cli.claims import Claim

COPIES = (2, 5, 10, 20)
LETTERS = {"hard": "H", "soft": "S"}
WAYS: Mapping[str, Way] = {"one": BASELINE} | {
    f"{loss}-{n}": Way(loss, n) for n in COPIES for loss in LETTERS
}
COLUMNS = {"one": "Baseline(DA)"} | {
    f"{loss}-{n}": f"MMEL-{letter}-{n}" for n in COPIES for loss, letter in LETTERS.items()
}


RECIPE = Recipe(
    name="mmel-copies",
    title="More copies of each image do better, ever less so.",
    paper="mmel",
    where="Table 2, CIFAR-10 / ResNet20",
    arms=tuple(WAYS),
    metrics=METRICS,
    settings={
        "smoke": replace(DIGITS, examples=20, tested=20, epochs=1, batch=10),
        "mini": DIGITS,
        "gpu": Settings(examples=10_000, epochs=20),
        "paper": Settings(),
    },
    minutes={"smoke": 0.2, "mini": 12, "gpu": 10, "paper": 1500},
    run=partial(trained, WAYS),
    claims=(
        Claim(
            "Students do better with any number of copies than with one.",
            tuple(c for loss in LETTERS for n in COPIES for c in above(f"{loss}-{n}", "one")),
        ),
        Claim(
            "They do better with ten copies than with two.",
            above("hard-10", "hard-2") + above("soft-10", "soft-2"),
        ),
        Claim(
            "Twenty gain less over ten than ten over one.",
            (
                *above("hard-10", "one", margin=0.5),
                *above("hard-10", "hard-20", margin=-0.5),
            ),
        ),
    ),
    table="Table 2",
    printed={
        (arm, "accuracy"): ("CIFAR-10 / ResNet20", column) for arm, column in COLUMNS.items()
    },
    prepare=read,
    notes=(
        "Other ResNets and CIFAR-100 are the same with --set student=resnet56 or "
        "--set data=cifar100.",
        "The last claim is ours in its numbers: ten copies gain more than half a point over "
        "one, and twenty less than half a point over ten.",
        "At mini scale the digits and the network of mmel-cifar.",
    ),
)

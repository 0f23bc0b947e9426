"""New students under a curriculum of weights, beside none and weights blind to the iteration.

Raghu et al. 2021, section 3.1, Figures 2 and 3: weights learned by algorithm 1 through whole
runs of a small network. Figures: ``docs/results.md``.
"""

from dataclasses import replace

from papers.framework.recipe import Recipe, above, expectation
from papers.raghu2021commentaries.curriculum_students import (
    ARMS,
    METRICS,
    Course,
    Pupil,
    Settings,
    better_areas,
    plots,
    taught,
)
from papers.students import splits

SMOKE = Settings(
    "cifar10",
    Course(2, 8, 1e-3, 2),
    *(20, 20, 40),
    (Pupil("cnn", 2), Pupil("cnn", 2), Pupil("resnet8-slim", 2)),
    8,
    1e-3,
    2,
)
MINI = Settings(
    "cifar10",
    Course(100, 16, 1e-4, 20, new_start=False),
    *(4000, 1000, 1000),
    (Pupil("cnn", 600), Pupil("resnet8-slim", 150), Pupil("resnet14-slim", 75)),
    64,
    1e-4,
    10,
)
GPU = Settings(
    "cifar10",
    Course(300, 8, 1e-4, 12),
    *(40_000, 10_000, 5000),
    (Pupil("cnn", 2000), Pupil("resnet18-cifar", 500), Pupil("resnet34-cifar", 250)),
    64,
    1e-4,
    10,
)
CIFAR10 = Recipe(
    name="commentaries-curriculum-cifar",
    title="Under a learned curriculum new students are ahead for most of their training.",
    paper="commentaries",
    where="Figures 2 and 3, CIFAR-10",
    arms=ARMS,
    metrics=METRICS,
    settings={"smoke": SMOKE, "mini": MINI, "gpu": GPU, "paper": Settings()},
    minutes={"smoke": 0.5, "mini": 7, "gpu": 10, "paper": 360},
    run=taught,
    claims=(
        *better_areas(),
        expectation(
            "The CNN's last accuracy is higher with the curriculum, too.",
            above("final_cnn", "curriculum", "none", "non-curriculum"),
        ),
    ),
    plots=plots(),
    prepare=lambda settings: splits(settings.data),
    notes=(
        "The paper shows curves and prints no number. Area is the mean of the test accuracies "
        "looked at, evenly spaced along a student's training.",
        "Weights are learned anew for every seed; the three students of a seed start alike and "
        "see the same batches in every arm.",
        "The paper's code gives weights the iteration i / N, and goes on beyond N, up to 17: "
        "the arm curriculum. The arm clipped, ours, stops at 1.",
        "At mini scale weights are learned through 20 students of 100 steps of 16 images, "
        "always from the same start, on 4,000 images instead of 40,000. The new students are "
        "the CNN for 600 steps, a ResNet-8 of 8 channels for 150 and a ResNet-14 of 4 for 75, "
        "for want of time; the paper's ResNet-18 and ResNet-34 train for 25,000. "
        "Learning rates are the paper's.",
        "The hypergradients of independent students agree little there: mean cosine 0.24 over "
        "five, and one of the five was ten times as long as the others.",
        "Looked at after the results: in so few steps at 1e-4 the ResNets have hardly begun. "
        "The deeper one ends at 10%, as by chance, in every arm, and the other at 16%: their "
        "comparisons say nothing of the paper's. The CNN's margin is small, 0.7 points of 33, "
        "and with the iteration clipped it is 0.2, within chance: what is gained is gained "
        "beyond the 100 steps that weights were learned through.",
        "The jobs' seconds were counted by the clock, on a machine with others; their work was "
        "some 800.",
    ),
)

SETTINGS = {
    scale: replace(settings, data="cifar100") for scale, settings in CIFAR10.settings.items()
}
CIFAR100 = Recipe(
    name="commentaries-curriculum-cifar100",
    title="Under a learned curriculum new students of a hundred classes are ahead.",
    paper="commentaries",
    where="Figures 2 and 3, CIFAR-100",
    arms=ARMS,
    metrics=METRICS,
    settings=SETTINGS | {"smoke": replace(SETTINGS["smoke"], train=100, held_out=100)},
    minutes={"smoke": 0.5, "mini": 7, "gpu": 10, "paper": 360},
    run=taught,
    claims=better_areas(),
    plots=plots(),
    prepare=lambda settings: splits(settings.data),
    notes=(
        "As for CIFAR-10, with the same settings. At mini scale a class has 50 images, and "
        "students end little above chance: the scales to run are gpu and paper.",
    ),
)

"""What OLA's policy learns: to drop the operations whose reward says so, and from it alone.

Müller et al. 2021, section 4: augmentation that is learned along with one student. The control
hands every example another one's reward. Figures: ``docs/results.md``.
"""

import numpy as np
import torch

from papers.framework.drawings import scatter
from papers.framework.recipe import Outcome, Panel, Plot, Recipe, above, below, expectation
from papers.mueller2021gar.augmented_students import Settings, kept, splits, train

SPACE = "wide-long"
HARSH = ("invert", "solarize", "equalize", "flip_ud", "posterize")
"""operations that leave little of what an image looks like at many strengths"""


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with its policy."""
    trained = train("cifar10", arm, SPACE, settings, seed, device)
    teacher = trained.teacher
    assert teacher is not None
    logits = teacher.keep.detach().double().cpu().numpy()
    effect = trained.effect.difference(len(logits))
    policy, levels = teacher.policy(), np.arange(teacher.space.levels)
    metrics = {
        "keep_correlation": correlation(logits, effect),
        "keep_spread": float(logits.std()),
        "mean_operations": float(policy.how_many @ np.arange(1, teacher.most + 1)),
        "mean_level": float((policy.strength @ levels)[teacher.space.has_strength].mean()),
        "test_accuracy": trained.test["test_accuracy"],
        "test_loss": trained.test["test_loss"],
    }
    harsh, others = kept(teacher, HARSH, settings.epochs)
    series = {"harsh": harsh, "others": others, "training loss": trained.losses}
    drawing = scatter(
        effect.tolist(),
        logits.tolist(),
        ("mean reward where kept less where dropped", "keep logit"),
        colours=["harsh" if op in HARSH else "other" for op in teacher.space.operations],
        colour="operation",
    )
    return Outcome(metrics, series, {"operations": drawing})


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson's correlation; 0 where one of the two does not vary."""
    if not one.std() or not other.std():
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


RECIPE = Recipe(
    name="ola-policy",
    title="A learned augmentation keeps the operations that its rewards speak for.",
    paper="gar",
    where="Section 4, online learned augmentation",
    arms=("learned", "permuted"),
    metrics={
        "keep_correlation": "of the final keep logits with the run's own measured effect of "
        "keeping, over operations",
        "keep_spread": "standard deviation of the keep logits over operations",
        "mean_operations": "expected operations for an image, kept or not, 1 to 4",
        "mean_level": "expected level of operations that have one, 0 to 30; 15 at first",
        "test_accuracy": "at the end, %",
        "test_loss": "at the end, nats",
    },
    settings={
        "smoke": Settings("cnn", examples=40, tested=20, batch=10, epochs=2),
        "mini": Settings(
            "cnn",
            examples=5000,
            tested=4000,
            batch=128,
            epochs=20,
            lr=0.02,
            warm_up=0.04,
            cutout=0,
            teacher_lr=0.05,
        ),
        "gpu": Settings("resnet8", examples=20_000, batch=128, epochs=15, lr=0.1),
        "paper": Settings(),
    },
    minutes={"smoke": 0.2, "mini": 6, "gpu": 6, "paper": 1000},
    run=run,
    claims=(
        expectation(
            "The keep logits end up in the order of what keeping each operation was measured "
            "to do to the reward.",
            above("keep_correlation", "learned", 0.7),
        ),
        expectation(
            "They do not where every example is handed another one's reward, though the policy "
            "moves there, too.",
            below("keep_correlation", "permuted", 0.5)
            + above("keep_correlation", "permuted", -0.5)
            + above("keep_spread", "permuted", 0.1),
        ),
    ),
    plots=(
        Panel("Learned: every operation", "learned", "operations"),
        Panel("By rewards of others", "permuted", "operations"),
        Plot(
            "Keep probability",
            "probability",
            {
                "learned, harsh": ("learned", "harsh"),
                "learned, others": ("learned", "others"),
                "permuted, harsh": ("permuted", "harsh"),
                "permuted, others": ("permuted", "others"),
            },
        ),
    ),
    prepare=lambda _settings: splits("cifar10"),
)

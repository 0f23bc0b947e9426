"""What the smaller tables about deep interactions share: metrics, scales, and a run."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from papers.fan2021interactions.reweighting import Settings, Way, train
from papers.framework.recipe import Outcome
from tutelage_cli.claims import Comparison

METRICS = {
    "error": "test error at the end, %",
    "chosen_error": "test error of the epoch with the least held-out error, %",
}
BEST = {"best_error": "least test error of any epoch, chosen on the test images, %"}
"""as some report it; honest only beside the other two"""
CLEAN: Mapping[str, Settings] = {
    "smoke": Settings(
        student="resnet8",
        examples=20,
        held_out=10,
        tested=10,
        noise="none",
        batch=10,
        epochs=1,
        every=2,
    ),
    "mini": Settings(
        student="resnet8",
        examples=1000,
        held_out=500,
        tested=2000,
        noise="none",
        epochs=6,
        every=5,
        teacher_lr=0.02,
    ),
    "gpu": Settings(
        student="resnet20",
        examples=5000,
        held_out=1000,
        noise="none",
        epochs=20,
        every=5,
        teacher_lr=0.02,
    ),
    "paper": Settings(
        held_out=5000,
        noise="none",
        batch=128,
        epochs=300,
        weight_decay=1e-4,
        decay_at=(80 / 300, 120 / 300),
    ),
}
"""CIFAR-10 with right labels"""
UNDER_FITTED = (
    "At mini scale, 1,000 images and 6 epochs of ResNet-8: enough to run every arm in earnest, "
    "too little for differences below a point as the paper prints them."
)
CHOSEN = (
    "The paper reports the model that is best on held-out images, as chosen_error does; error "
    "is at the end of the schedule."
)


def spoilt(scales: Mapping[str, Settings], **changes: str | float) -> dict[str, Settings]:
    """The same scales with the same changes, as of noise."""
    return {name: replace(of, **changes) for name, of in scales.items()}


def measured(
    ways: Mapping[str, Way],
    arm: str,
    seed: int,
    settings: Settings,
    device: torch.device,
    *,
    metrics: Mapping[str, str] = METRICS,
) -> Outcome:
    """Train one student with one seed."""
    trained = train(ways[arm], seed, settings, device)
    errors = trained.errors()
    return Outcome({name: errors[name] for name in metrics}, trained.series)


def below(arm: str, *others: str, margin: float = 0.0) -> tuple[Comparison, ...]:
    """One arm's error is below that of others."""
    return tuple(
        Comparison((arm, "error"), "below", (other, "error"), margin=margin) for other in others
    )

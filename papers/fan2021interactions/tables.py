"""Common parts of the tables about deep interactions: metrics, scales, a run, the recipe."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from papers.fan2021interactions.reweighting import (
    TRUST,
    Method,
    Settings,
    check_arms,
    train,
)
from papers.framework.recipe import Outcome, Recipe, below, curves, expectation
from tutelage_cli.claims import Claim

METRICS = {
    "error": "test error at the end of training, %",
    "chosen_error": "test error at the epoch with the lowest held-out error, %",
}
BEST = {"best_error": "lowest test error of any epoch, chosen on the test images, %"}
"""as some papers report it; biased, so always shown with the other two"""
PRINTED_AS = {"error": "chosen_error"}
"""claims are about the error at the end; the tables on clean labels print the chosen epoch's"""
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
    "hours": Settings(
        student="head-4",
        examples=10_000,
        noise="none",
        augment="none",
        epochs=15,
        lr=0.03,
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
"""CIFAR-10 with clean labels"""


def with_changes(scales: Mapping[str, Settings], **changes: str | float) -> dict[str, Settings]:
    """Apply the same changes to the settings of every scale."""
    return {name: replace(settings, **changes) for name, settings in scales.items()}


def measured(
    methods: Mapping[str, Method],
    metrics: Mapping[str, str],
    arm: str,
    seed: int,
    settings: Settings,
    device: torch.device,
) -> Outcome:
    """Train one student with one seed."""
    trained = train(methods[arm], seed, settings, device)
    found = trained.errors()
    if TRUST.keys() <= metrics.keys():
        found |= trained.weight_statistics()
    return Outcome({name: found[name] for name in metrics}, trained.series)


def table_recipe(
    methods: Mapping[str, Method], *, metrics: Mapping[str, str] = METRICS, **fields: Any
) -> Recipe:
    """A recipe whose arms are methods to teach a student; the other fields are ``Recipe``'s."""
    return Recipe(
        paper="l2tdi",
        arms=tuple(methods),
        metrics=metrics,
        printed_as=PRINTED_AS,
        run=partial(measured, methods, metrics),
        prepare=partial(check_arms, methods),
        **{"plots": (curves("Test error", "%", methods, "test error"),), **fields},
    )


def no_worse(arm: str, subject: str) -> Claim:
    """A claim of ours: an arm's error is above that of plain training by less than a point."""
    text = f"With {subject}, the test error is less than one point above plain training's."
    return expectation(text, below("error", arm, "plain", margin=-1.0))

"""Made-up runs of any size, realistic enough to look at."""

from collections.abc import Callable

import numpy as np
import pytest

from tutelage_cli.report import (
    Arm,
    Augmentation,
    ClassWeights,
    Curve,
    Example,
    Examples,
    LeastTrusted,
    RunContent,
)

CLASSES = ("cat", "deer", "dog", "frog", "plane", "ship")
ARMS = ("untaught", "learned weights", "small loss")
TEACHERS = (
    "none: every example counts the same",
    "a network that weighs each example by its loss, taught by the held-out loss",
    "keeps the 60 % of each batch that has the smallest loss",
)


def fake_run(
    *,
    arms: int = 3,
    seeds: int = 3,
    epochs: int = 12,
    examples: int = 600,
    pictures: int = 8,
    truth: bool = True,
    colour: bool = False,
    policy: bool = False,
    text: bool = False,
) -> RunContent:
    """A run in which teachers help and find wrong labels."""
    rng = np.random.default_rng(7)
    names = ARMS[:arms]
    return RunContent(
        title="Noisy digits, three ways to train",
        command="tutelage train --data noisy-digits --noise 0.4 --seeds 3",
        data="noisy-digits: 4,000 train, 500 held out, 2,000 test; 40 % symmetric noise; "
        "38.1 % wrong labels",
        classes=CLASSES,
        arms=tuple(_arm(rng, k, seeds, truth) for k in range(arms)),
        curves=tuple(
            _curve(rng, k, seed, epochs, truth) for k in range(arms) for seed in range(seeds)
        ),
        examples=tuple(_examples(rng, name, examples, truth) for name in names[1:]),
        least_trusted=tuple(
            _sentences(name) if text else _pictures(rng, name, pictures, truth, colour)
            for name in names[1:]
        ),
        verdict=(
            "learned weights beats untaught by 6.1 percentage points of test accuracy.",
            "The lowest of its seeds is above the highest untaught seed; it takes 2.4 times as "
            "long.",
        ),
        settings={"noise_rate": "0.4", "epochs": str(epochs), "batch_size": "128"},
        environment={"python": "3.12.1", "torch": "2.9.0", "device": "cpu"},
        augmentations=(_policy(rng, names[-1], seeds),) * policy,
        by_class=tuple(_classed(name, epochs) for name in names[1:]),
    )


def _arm(rng: np.random.Generator, k: int, seeds: int, truth: bool) -> Arm:
    def around(middle: float, spread: float) -> tuple[float, ...]:
        return tuple(float(x) for x in rng.normal(middle, spread, seeds))

    knows = truth and k > 0
    return Arm(
        name=ARMS[k],
        teacher=TEACHERS[k],
        seeds=tuple(range(seeds)),
        test_accuracy=around((0.7112, 0.7731, 0.7524)[k], 0.006),
        seconds=around((41.3, 97.2, 48.0)[k], 2),
        ratio=around(1 + 0.7 * k, 0.05) if k else (1.0,) * seeds,
        memory=around((30 + 9 * k) * 2**20, 2**18),
        weight_right=around(1.31, 0.02) if knows else None,
        weight_wrong=around(0.42, 0.02) if knows else None,
        auroc=around(0.91, 0.01) if knows else None,
    )


def _curve(rng: np.random.Generator, k: int, seed: int, epochs: int, truth: bool) -> Curve:
    t = np.arange(1, epochs + 1)
    top, knows = (0.71, 0.77, 0.75)[k], truth and k > 0

    def noisy(values: np.ndarray, spread: float) -> tuple[float, ...]:
        return tuple(float(x) for x in values + rng.normal(0, spread, epochs))

    return Curve(
        arm=ARMS[k],
        seed=seed,
        epochs=tuple(int(x) for x in t),
        test_accuracy=noisy(top - 0.5 * np.exp(-t / 3), 0.006),
        train_loss=noisy(1.1 - 0.15 * k + 1.2 * np.exp(-t / 4), 0.02),
        weight_right=noisy(1.3 - 0.3 * np.exp(-t / 3), 0.02) if knows else None,
        weight_wrong=noisy(0.4 + 0.6 * np.exp(-t / 3), 0.02) if knows else None,
    )


def _classed(name: str, epochs: int) -> ClassWeights:
    t = np.arange(1, epochs + 1)
    apart = np.linspace(-0.6, 0.5, len(CLASSES))
    return ClassWeights(name, tuple(t.tolist()), 1 + np.outer(t / epochs, apart))


def _sentences(name: str) -> LeastTrusted:
    texts = ("A fine film.", "It rains <b>& it pours</b>, " + "again and " * 30 + "again.")
    labels = ("bad", "good", "good")
    items = (Example(text, n, *labels, 0.1, 2.0) for n, text in enumerate(texts))
    return LeastTrusted(name, tuple(items))


def _policy(rng: np.random.Generator, name: str, seeds: int) -> Augmentation:
    level = rng.uniform(5, 25, (seeds, 4))
    level[:, 1] = np.nan
    return Augmentation(
        arm=name,
        operations=("rotate", "invert", "shear", "blur"),
        keep=rng.uniform(0, 1, (seeds, 4)),
        level=level,
        highest=30,
        how_many=np.full((seeds, 2), 0.5),
        steps=(0, 10, 20),
        past=rng.uniform(0, 1, (3, 4, 2)),
    )


def _examples(rng: np.random.Generator, name: str, size: int, truth: bool) -> Examples:
    true = rng.integers(0, len(CLASSES), size)
    given = np.where(rng.random(size) < 0.4, rng.integers(0, len(CLASSES), size), true)
    wrong = given != true
    losses = np.where(wrong, rng.gamma(6, 0.5, size), rng.gamma(0.6, 0.6, size))
    weights = 1.6 / (1 + np.exp(1.5 * (losses - 1.5))) + rng.normal(0, 0.04, size).clip(-0.1)
    return Examples(
        arm=name,
        ids=np.arange(size),
        given=given,
        true=true if truth else None,
        predicted=true,
        losses=losses.astype(np.float32),
        weights=weights.clip(0),
    )


def _pictures(
    rng: np.random.Generator, name: str, count: int, truth: bool, colour: bool
) -> LeastTrusted:
    shape = (32, 32, 3) if colour else (28, 28)
    y, x = np.mgrid[: shape[0], : shape[1]]
    items = []
    for n in range(count):
        blob = np.hypot(x - 14 - rng.normal(0, 4), y - 14 - rng.normal(0, 4)) < 4 + n % 6
        base = (blob * 190).astype(np.uint8)
        noise = rng.integers(0, 60, shape, dtype=np.uint8)
        image = noise + (base[..., None] if colour else base)
        given, true = CLASSES[n % 6], CLASSES[(n + (n % 5 > 0)) % 6]
        items.append(
            Example(
                shown=image,
                id=100 + 37 * n,
                given=given,
                predicted=true,
                true=true if truth else None,
                weight=0.0003 + 0.004 * n,
                loss=6.5 - 0.3 * n,
            )
        )
    return LeastTrusted(arm=name, items=tuple(items))


@pytest.fixture(scope="session")
def run() -> Callable[..., RunContent]:
    """Makes a run; its options are those of ``fake_run``."""
    return fake_run

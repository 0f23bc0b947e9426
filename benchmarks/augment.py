"""Images augmented per second, here and with other libraries, and what a learned policy costs.

    python -m benchmarks.augment [--cases NAME ...] [--rounds 7] [--out FILE]

Two operations of RandAugment at level 9 for each image, on one thread. Every round runs all
variants in alternating order; what is printed is CPU time relative to ours in the same round,
as the median of the rounds with its quartiles. kornia draws one pair of operations for the
whole batch, which is less work than a pair for each image; the others draw one for each.

For the policy that is learned: what drawing and its log-probability take of a training step of
ResNet-20 on 128 images, and what an augmented step and the plain one that rewards it take
beside two steps with UniformAugment.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.optim import SGD, Adam
from torchvision.transforms import v2

from benchmarks.command import Benchmark, Row, main, size
from benchmarks.hypergradients.measure import Once, timed
from tutelage.augment import RandAugment, UniformAugment
from tutelage.models import build_student
from tutelage.signals import GradientAlignment
from tutelage.signals.products import Alignment
from tutelage.teachers import LearnedAugmentation, Plain
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

SIZES = {32: size(256, 4), 224: size(16, 2)}
"""images in a batch by their height and width"""
BATCH = size(128, 4)
"""images in a training step"""


def pictures(size: int, count: int) -> Tensor:
    """Images with the smoothness of photographs.

    Args:
        size: Height and width.
        count: How many.

    Returns:
        [count, 3, size, size] uint8.
    """
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, size // 8, size // 8, generator=generator)
    fine = torch.nn.functional.interpolate(coarse, size=size, mode="bicubic")
    return fine.clamp(0, 1).mul(255).to(torch.uint8)


def engines(images: Tensor) -> dict[str, Callable[[], object]]:
    """Ways to augment a batch.

    Args:
        images: The batch.

    Returns:
        By name; ours first.
    """
    ours, theirs, seeds = RandAugment(2, 9), v2.RandAugment(2, 9), iter(range(10**9))
    pillow = [Image.fromarray(np.asarray(image.permute(1, 2, 0))) for image in images]
    found: dict[str, Callable[[], object]] = {
        "tutelage": lambda: ours(images, seed=next(seeds)),
        "torchvision, per image": lambda: torch.stack([theirs(image) for image in images]),
        "Pillow, per image": lambda: torch.stack([
            v2.functional.pil_to_tensor(theirs(image)) for image in pillow
        ]),
    }
    try:
        kornia = import_module("kornia.augmentation.auto").RandAugment(n=2, m=9)
    except ImportError:
        return found
    return found | {
        "kornia, one draw a batch": lambda: kornia(images.float() / 255).mul(255).byte()
    }


def throughput(size: int, rounds: int) -> list[Row]:
    """Images per second of every way, and how many times ours that takes.

    Args:
        size: Height and width.
        rounds: How many are counted.

    Returns:
        One row per way.
    """
    count = SIZES[size]
    ready = engines(pictures(size, count))
    for once in ready.values():
        once()
    times = timed(_several(ready, 3), rounds)
    return [
        {"what": f"{size}x{size}", "variant": name, "n": rounds}
        | _ratios(times[name], times["tutelage"])
        | {"images_per_second": 3 * count / statistics.median(times[name])}
        for name in ready
    ]


def _several(ready: Mapping[str, Callable[[], object]], times: int) -> dict[str, Once]:
    def repeated(once: Callable[[], object]) -> Once:
        def run() -> Tensor:
            for _ in range(times):
                once()
            return torch.empty(0)

        return run

    return {name: repeated(once) for name, once in ready.items()}


def _ratios(times: Sequence[float], base: Sequence[float]) -> Row:
    found = [a / b for a, b in zip(times, base, strict=True)]
    low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
    return {"ratio": middle, "quartiles": [low, high]}


def tutor_of(signal: GradientAlignment | None) -> Tutor:
    """A ResNet-20 with its teacher.

    Args:
        signal: How the policy learns; None: there is none.

    Returns:
        The tutor.
    """
    student = build_student("resnet20", classes=10, channels=3, size=32, seed=0)
    rule = SGD(student.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    if signal is None:
        return Tutor(student, rule, Plain())
    teacher = LearnedAugmentation()
    learner = Adam(teacher.parameters(), 0.1)
    return Tutor(student, rule, teacher, learner, signal=signal, teacher_every=2)


def training(rounds: int) -> list[Row]:
    """What a learned policy costs, beside fixed ones.

    Args:
        rounds: How many are counted.

    Returns:
        One row per way.
    """
    images, labels = pictures(32, BATCH), torch.arange(BATCH) % 10
    ids, uniform = torch.arange(BATCH), UniformAugment()
    plain, teacher = tutor_of(None), LearnedAugmentation()
    learning = {
        "learned, read off the step": tutor_of(GradientAlignment(evaluate_on="plain")),
        "learned, by difference": tutor_of(
            GradientAlignment(Alignment("one-sided"), evaluate_on="plain")
        ),
    }

    def fixed() -> None:
        for _ in range(2):
            changed = uniform(images, seed=plain.steps)
            plain.step(Batch(changed.float() / 255, labels, ids))

    def learned(tutor: Tutor) -> None:
        for _ in range(2):
            tutor.step(Batch(images.float() / 255, labels, ids))

    def sampled() -> None:
        teacher.log_probability(*teacher.draw(plain.steps, ids)).mean().backward()

    ready: dict[str, Callable[[], object]] = {"two steps with UniformAugment": fixed}
    ready |= {name: lambda tutor=tutor: learned(tutor) for name, tutor in learning.items()}
    ready["drawing and log-probability"] = sampled
    for once in (*ready.values(), *ready.values()):
        once()
    times = timed(_several(ready, 1), rounds)
    base = times["two steps with UniformAugment"]
    # drawing is compared with one step
    one = [second / 2 for second in base]
    return [
        {"what": f"ResNet-20, {BATCH} images", "variant": name, "n": rounds}
        | _ratios(times[name], one if "drawing" in name else base)
        for name in ready
    ]


def case(name: str, rounds: int) -> list[Row]:
    """Images of one size, or a learned policy beside fixed ones."""
    return training(rounds) if name == "training" else throughput(int(name), rounds)


def line(row: Row) -> str:
    """A way with its time in that of ours."""
    speed = f"{row['images_per_second']:8.0f} /s" if "images_per_second" in row else ""
    low, high = row["quartiles"]
    return (
        f"{row['variant']:30} {row['ratio']:7.3f} [{low:.3f}, {high:.3f}] n={row['n']} {speed}"
    )


BENCHMARK = Benchmark(
    cases=(*map(str, SIZES), "training"),
    measure=case,
    line=line,
    rounds=7,
    names=("what", "variant"),
    ratio=lambda row: row["ratio"],
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

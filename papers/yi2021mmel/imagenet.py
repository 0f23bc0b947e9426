"""Ten crops of each ImageNet image, weighted by their losses, for three ResNets.

Yi et al. 2021, Table 5. Figures: ``docs/results.md``.
"""

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import MultiStepLR

from papers.data.crops import Crops
from papers.data.published.imagenet import Parts, first_classes, open_imagenet
from papers.data.streamed import Streamed
from papers.framework.recipe import Outcome, Recipe, above, below
from papers.framework.settings import CountOrZero, Positive, RecipeSettings, Shares
from papers.students import accuracy, find_folder, fit, predictions
from papers.yi2021mmel.copies import BASELINE, Method, Normalised, Temperature, weigher
from tutelage.models import build_student
from tutelage.models.catalogue import require_student
from tutelage.randomness import mixed_seed
from tutelage.storage.atomic_files import write_atomically
from tutelage.teachers import CombinedTeacher, GivenCopies
from tutelage.training.tutor import Tutor
from tutelage_cli.claims import Claim
from tutelage_cli.data.cache import cache_folder
from tutelage_cli.data.local import FOLDER
from tutelage_cli.data.splits import limit_rows

NAMES = ("n01", "n02", "n03")
COUNTS = {"train": 8, "val": 4}  # images of each class


def synthetic_images() -> Path:
    """A folder of synthetic JPEG images: noisy stripes in three directions, the classes."""
    folder, generator = cache_folder() / "recipes" / "made-photos", np.random.default_rng(0)
    for split, count in COUNTS.items():
        for number, name in enumerate(NAMES):
            (folder / split / name).mkdir(parents=True, exist_ok=True)
            for row in range(count):
                file, buffer = folder / split / name / f"{name}_{row}.JPEG", io.BytesIO()
                _stripes(generator, number).save(buffer, format="JPEG")
                if not file.exists():
                    write_atomically(file, buffer.getvalue())
    return folder


def _stripes(generator: np.random.Generator, direction: int) -> Image.Image:
    height, width = generator.integers(40, 80, 2)
    down, across = np.mgrid[:height, :width]
    along = (down, across, down + across)[direction]
    stripes = 60 * np.sin(along / 3 + generator.uniform(0, 6))[..., None]
    pixels = (
        generator.uniform(80, 170, 3) + stripes + generator.normal(0, 8, (height, width, 3))
    )
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


METRICS = {
    "accuracy": "on the centre crops of the validation images at the end of training, %",
    "loss": "the same, nats",
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's channels, in 0..1
MADE = "made"  # in place of a folder: ``synthetic_images``


@dataclass(frozen=True)
class Settings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or usual ones where it gives none."""

    folder: str = "imagenet"
    """with subfolders train and val; a path, or a name in ``$TUTELAGE_DATA``"""
    classes: int | None = None  # number of classes, the first by name; None: all
    examples: int | None = None  # training images, class balanced; None: all
    student: str = ""  # the network of all arms; empty: each arm's own
    side: int = 224  # of a crop, pixels
    copies: int = 10  # rows of every image, its centre crop included
    temperature: Temperature = 1.0  # lambda_P
    weight: Positive = 1.0  # lambda_T, of the soft loss
    batch: int = 256  # images, each with its copies
    epochs: int = 100
    lr: float = 0.1
    decay_at: Shares = (0.3, 0.6, 0.9)
    """shares of the run after which the learning rate is multiplied by ``decay``"""
    decay: float = 0.1
    weight_decay: float = 1e-4
    micro_batch: int | None = None  # rows of a forward pass; None: all of a batch
    bfloat16: bool = False  # whether the student runs under autocast to bfloat16
    workers: CountOrZero = 8  # processes that read images

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.student:
            require_student(self.student)


def parts(settings: Settings) -> Parts:
    """The files of training and validation images, none of them read."""
    whole = _opened(settings.folder)
    if settings.classes is None:
        return whole
    return Parts(*(first_classes(part, settings.classes) for part in whole))


@cache
def _opened(folder: str) -> Parts:
    if folder == MADE:
        return open_imagenet(synthetic_images())
    otherwise = (
        "give --set folder=PATH of a folder that holds train, with one folder of images for "
        f"each class, and val, or set {FOLDER} to a folder that holds one called {folder}"
    )
    return open_imagenet(find_folder(folder, otherwise))


def trained(
    student: str, method: Method, seed: int, settings: Settings, device: torch.device
) -> Outcome:
    """Train the student of one arm and seed on crops."""
    train, val = parts(settings)
    if settings.examples is not None:
        classes = len(train.classes)
        rows = limit_rows(train.labels, settings.examples, classes, seed=mixed_seed(seed, 0))
        train = train.rows(rows)
    model = _student(settings.student or student, settings, len(train.classes), seed).to(device)
    optimizer = SGD(
        model.parameters(), settings.lr, momentum=0.9, weight_decay=settings.weight_decay
    )
    schedule = MultiStepLR(
        optimizer, [int(share * settings.epochs) for share in settings.decay_at], settings.decay
    )
    teacher = CombinedTeacher(
        GivenCopies(), weigher(method.loss, settings.temperature, settings.weight)
    )
    tutor = Tutor(
        model, optimizer, teacher, seed=mixed_seed(seed, 3), micro_batch=settings.micro_batch
    )
    k = method.copies or settings.copies
    workers = min(settings.workers, os.cpu_count() or 1)
    batches, testing = (
        Streamed(crops, settings.batch, mixed_seed(seed, 2), device, workers=workers)
        for crops in (
            Crops(train, settings.side, k, original=k > 1),
            Crops(val, settings.side, 1, original=True),
        )
    )
    cast = partial(torch.autocast, device.type, torch.bfloat16, enabled=settings.bfloat16)
    fit(tutor, batches, settings.epochs, schedule, autocast=cast)
    centre_crops = (b._replace(inputs=b.inputs[:, 0]) for b in testing.whole(256))
    logits, labels = predictions(model, centre_crops)
    loss = float(F.cross_entropy(logits, labels))
    return Outcome({"accuracy": accuracy(logits, labels), "loss": loss})


def _student(name: str, settings: Settings, classes: int, seed: int) -> nn.Module:
    own = mixed_seed(seed, 1)
    network = build_student(name, classes=classes, channels=3, size=settings.side, seed=own)
    mean, std = (255 * torch.tensor(values) for values in (MEAN, STD))  # for 0..255
    return Normalised(network, mean, std)


DEPTHS = (18, 34, 50)
METHODS: Mapping[str, Method] = {
    "one": BASELINE,
    "hard": Method("hard"),
    "soft": Method("soft"),
}
COLUMNS = {"one": "Baseline(DA)", "hard": "MMEL-H", "soft": "MMEL-S"}
ARMS = {f"resnet{depth}.{method}": (depth, method) for depth in DEPTHS for method in METHODS}
SMALL = Settings(
    classes=10, examples=500, side=32, copies=4, batch=50, epochs=10, lr=0.02, workers=0
)


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed."""
    depth, method = ARMS[arm]
    return trained(f"resnet{depth}", METHODS[method], seed, settings, device)


RECIPE = Recipe(
    name="mmel-imagenet",
    title="On ImageNet, hard weights on ten crops raise the accuracy, and soft ones lower it.",
    paper="mmel",
    where="Table 5, ImageNet",
    arms=tuple(ARMS),
    metrics=METRICS,
    settings={
        "smoke": replace(
            SMALL, folder=MADE, classes=None, examples=6, copies=3, batch=3, epochs=1
        ),
        "mini": SMALL,
        "gpu": Settings(
            classes=20, examples=6000, side=112, copies=4, epochs=12, bfloat16=True, workers=16
        ),
        "paper": Settings(),
    },
    minutes={"smoke": 0.3, "mini": 21, "gpu": 10, "paper": 600_000},
    run=run,
    claims=(
        Claim(
            "Ten crops with hard weights give a higher accuracy than one crop, with every "
            "ResNet.",
            tuple(
                c
                for n in DEPTHS
                for c in above("accuracy", f"resnet{n}.hard", f"resnet{n}.one")
            ),
        ),
        Claim(
            "The soft loss gives a lower accuracy than one crop, with every ResNet: its "
            "targets come from a model that is wrong about many images.",
            tuple(
                c
                for n in DEPTHS
                for c in below("accuracy", f"resnet{n}.soft", f"resnet{n}.one")
            ),
        ),
    ),
    table="Table 5",
    printed={
        (arm, "accuracy"): (f"ImageNet / ResNet{depth}", COLUMNS[method])
        for arm, (depth, method) in ARMS.items()
    },
    prepare=parts,
)

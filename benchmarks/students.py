"""Accuracy of untaught students on a few thousand images of CIFAR-10, some of them pretrained.

    python -m benchmarks.students [--cases NAME ...] [--rounds 3] [--out FILE]

Each, with the right labels or with ``flip2:0.4``, is trained on 5,000 images for 12 epochs with
the defaults of ``tutelage train``, by seeds 100, 101 and 102, one a round, and tested on 2,000;
``efficientnet-lite0`` is frozen. It needs CIFAR-10 below ``TUTELAGE_DATA``.
"""

import time
from dataclasses import replace

from benchmarks.command import Benchmark, Row, main, size
from tutelage.models.pretrained_images import LITE0
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.labelled import Splits
from tutelage_cli.data.sources import load
from tutelage_cli.data.splits import limit_rows
from tutelage_cli.train.arms import build_tutor, device_of
from tutelage_cli.train.evaluation import accuracy
from tutelage_cli.train.freeze import frozen_features
from tutelage_cli.train.job import learning_rate
from tutelage_cli.train.material import Material, Source, open_streams, seed_material
from tutelage_cli.train.settings import TrainSettings

TRAIN, HELD_OUT, TEST = size(5000, 200), size(500, 20), size(2000, 20)
EPOCHS = size(12, 1)
STUDENTS = ("cnn", "resnet8", LITE0)


def trained(settings: TrainSettings, splits: Splits[ImageSet], seed: int) -> Row:
    """Train a student and test it.

    Args:
        settings: Which student, and how.
        splits: CIFAR-10.
        seed: Of the images, the wrong labels, the student and the batches.

    Returns:
        What is printed.
    """
    device = device_of(settings)
    material: Material = seed_material(Source(splits, None), settings, seed)
    if settings.freeze:
        images = [material.train, material.held_out, material.test]
        parts = [part for part in images if not isinstance(part, FeatureSet)]
        train, held_out, test = frozen_features(settings, parts, device, print)
        material = replace(material, train=train, held_out=held_out, test=test)
    streams = open_streams(material, settings, seed, device)
    steps = len(streams.train) * settings.epochs
    tutor = build_tutor("untaught", seed, material.train, settings, steps)
    started = time.process_time()
    for epoch in range(settings.epochs):
        for group in tutor.optimizer.param_groups:
            group["lr"] = learning_rate(settings, epoch)
        tutor.student.train()
        for batch in streams.train.epoch(epoch):
            tutor.step(batch, None)
    seconds = time.process_time() - started
    share = accuracy(tutor, streams.test)
    facts = {"student": settings.student, "frozen": settings.freeze, "noise": settings.noise}
    return facts | {"seed": seed, "accuracy": share, "seconds": round(seconds, 1)}


def measured(name: str, rounds: int) -> list[Row]:
    """Train a student with every seed."""
    student, _, noise = name.partition(", ")
    whole = load("cifar10")
    tested: ImageSet = whole.test
    rows = limit_rows(tested.labels, TEST, len(tested.classes), seed=0)
    splits = Splits(whole.train, tested.rows(rows))
    settings = TrainSettings(
        "cifar10",
        student=student,
        freeze=student == LITE0,
        noise=noise or "none",
        limit=TRAIN,
        held_out=HELD_OUT,
        epochs=EPOCHS,
    )
    return [trained(settings, splits, 100 + number) for number in range(rounds)]


def line(row: Row) -> str:
    """A seed with its accuracy and the CPU seconds of its steps."""
    return f"seed {row['seed']}  accuracy {row['accuracy']:.3f}  {row['seconds']} s"


BENCHMARK = Benchmark(
    cases=tuple(f"{name}{noise}" for noise in ("", ", flip2:0.4") for name in STUDENTS),
    measure=measured,
    line=line,
    rounds=3,
    names=("student", "noise", "seed"),
)

if __name__ == "__main__":
    main(BENCHMARK, __doc__)

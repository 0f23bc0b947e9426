"""The benchmarks of few-shot learning by name, each as three sets without a common class."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from papers.data.few_shot import cifar_fs
from papers.data.few_shot.class_sets import ClassParts, joined, only, those_with_images
from tutelage.errors import UsageError, nearest
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.local import FOLDER, load_known, local_copy
from tutelage_cli.data.parquet import parquet_splits
from tutelage_cli.data.resize import Size, covering
from tutelage_cli.data.stored import load_stored

CHARACTER_SIDE = 28
"""pixels, to which characters are brought"""
_HELD_OUT_ALPHABET = "Latin/"


def few_shot(name: str) -> ClassParts:
    """A benchmark's three sets of classes.

    ``cifar-fs``: all images of CIFAR-100, 64 / 16 / 20 classes, 32x32. ``mini-imagenet``: the
    classes of the local copy's train, validation and test split, 84x84. ``omniglot``: the
    characters of the local copy's train and test split, 28x28, of which the Latin alphabet is
    held out (a choice of this library: characters have no held-out part of their own).
    """
    if name not in BENCHMARKS:
        raise UsageError(f"unknown few-shot benchmark '{name}'. {nearest(name, BENCHMARKS)}")
    return BENCHMARKS[name]()


def _cifar_fs() -> ClassParts:
    whole = joined(load_known("cifar100"))
    lists = (cifar_fs.TRAIN, cifar_fs.HELD_OUT, cifar_fs.TEST)
    return ClassParts(*(only(whole, names) for names in lists))


def _mini_imagenet() -> ClassParts:
    folder = local_copy("mini_imagenet")
    files = parquet_splits(folder).get("validation", []) if folder else []
    if len(files) != 1:
        raise UsageError(
            f"mini_imagenet has {len(files)} parquet files for the split validation here; "
            f"allowed: one. Set {FOLDER} to a folder with its train, validation and test split "
            "in the subfolder mini_imagenet."
        )
    splits, held_out = load_known("mini_imagenet"), joined(load_stored(str(files[0])))
    return ClassParts(_present(splits.train), _present(held_out), _present(splits.test))


def _omniglot() -> ClassParts:
    splits = load_known("omniglot")
    train, test = _small(splits.train), _small(splits.test)
    names = those_with_images(train)
    held_out = [name for name in names if name.startswith(_HELD_OUT_ALPHABET)]
    learned = [name for name in names if name not in held_out]
    return ClassParts(only(train, learned), only(train, held_out), _present(test))


def _present(images: ImageSet) -> ImageSet:
    return only(images, those_with_images(images))


def _small(images: ImageSet) -> ImageSet:
    size = Size(CHARACTER_SIDE, CHARACTER_SIDE)
    return replace(images, images=covering(images.images, size))


BENCHMARKS: Mapping[str, Callable[[], ClassParts]] = {
    "cifar-fs": _cifar_fs,
    "mini-imagenet": _mini_imagenet,
    "omniglot": _omniglot,
}

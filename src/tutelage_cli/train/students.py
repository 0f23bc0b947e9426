"""Builds students of images, texts and features; tokens of texts; kinds of examples."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError, in_one_line
from tutelage.models.backbones import Backbone, Pretrained, headless, load_weights, read_state
from tutelage.models.bag_of_tokens import BagOfTokens
from tutelage.models.catalogue import STUDENTS, Images, build_student, require_student
from tutelage.models.heads import MLP
from tutelage.models.pretrained_images import (
    LITE0,
    efficientnet_lite0,
    of_folder,
    of_timm,
    of_torchvision,
    require_timm_model,
)
from tutelage.randomness import seeded
from tutelage_cli.data.batches import statistics
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.settings import TrainSettings

TORCHVISION, TIMM = "torchvision:", "timm:"
CODE = ".py:"
DEFINE = (
    "not a module: define a function of classes, channels and size that returns the student."
)
CNN, COLOURED = "cnn", "resnet8"
"""default students of grey and of colour images"""
BAG = "bag"
"""the default student of texts"""
VOCABULARY_SIZE = 8000
"""tokens of a vocabulary learned from the texts"""
Data = ImageSet | TextSet | FeatureSet


def image_student_name(settings: TrainSettings, channels: int) -> str:
    """The student's name, the default filled in."""
    return settings.student or (COLOURED if channels == 3 else CNN)


def require_image_student(settings: TrainSettings) -> None:
    """Refuse an unknown student of images, or one that lacks the weights it needs."""
    name, file = settings.student, settings.student_weights
    has_weights = name is not None and (name == LITE0 or _folder(name) is not None)
    if file is not None and (name is None or has_weights):
        remedy = (
            "has its own: leave it out"
            if has_weights
            else "needs --student: the network that they are of"
        )
        raise UsageError(f"--student-weights {file} {remedy}.")
    if name is not None and CODE in name:
        _load_function(name)
    elif name is not None and name.startswith(TIMM):
        require_timm_model(name.removeprefix(TIMM))
    if settings.freeze:
        if file is None and not has_weights and CODE not in (name or ""):
            raise UsageError(
                f"--freeze is about pretrained students, but {name or 'the default'} has no "
                f"weights: give --student {LITE0}, a folder of transformers, FILE.py:FUNCTION, "
                "or --student-weights."
            )
        if settings.augment not in (None, "none"):
            raise UsageError(
                f"--augment {settings.augment} does nothing to features that are computed "
                "once: leave it or --freeze out."
            )
    if name is None or has_weights or name.startswith(TIMM) or CODE in name:
        return
    require_student(name.removeprefix(TORCHVISION))


def image_student(settings: TrainSettings, images: ImageSet, seed: int) -> nn.Module:
    """The student that the settings name, with a new last layer for the classes of the data."""
    channels, height, width = images.images.shape[1:]
    name = image_student_name(settings, channels)
    classes, size = len(images.classes), max(height, width)
    if not _has_backbone(settings, name):
        if CODE in name:
            with seeded(seed), torch.device("cpu"):
                return _load_code(name, Images(classes, channels, height))
        plain = name.removeprefix(TORCHVISION)
        return build_student(plain, classes=classes, channels=channels, size=height, seed=seed)
    mean, std = statistics(images)
    with seeded(seed), torch.device("cpu"):
        return Pretrained(backbone_of(settings, images), classes, mean, std, size).train()


def backbone_of(settings: TrainSettings, images: ImageSet) -> Backbone:
    """The student that the settings name, without its last layer."""
    channels, height, _ = images.images.shape[1:]
    name, file = image_student_name(settings, channels), settings.student_weights
    if name == LITE0:
        return efficientnet_lite0()
    if (folder := _folder(name)) is not None:
        return of_folder(folder)
    if name.startswith(TIMM):
        return of_timm(name.removeprefix(TIMM), file)
    if is_torchvision_name(name):
        return of_torchvision(name.removeprefix(TORCHVISION), file)
    sizes = Images(len(images.classes), channels, height)
    student = (
        _load_code(name, sizes)
        if CODE in name
        else build_student(name, classes=sizes.classes, channels=channels, size=height, seed=0)
    )
    network, width, last = headless(student, name)
    if file is not None:
        load_weights(network, read_state(file), last=last, file=file, name=name)
    return Backbone(network, width, name, None, None, None)


def _has_backbone(settings: TrainSettings, name: str) -> bool:
    packaged = name == LITE0 or name.startswith(TIMM)
    return packaged or settings.student_weights is not None or _folder(name) is not None


def is_torchvision_name(name: str) -> bool:
    """Whether a student is torchvision's, with the prefix or without."""
    plain = name in STUDENTS or name.startswith("wrn-") or CODE in name
    return name.startswith(TORCHVISION) or not plain


def _folder(name: str) -> Path | None:
    folder = Path(name).expanduser()
    return folder if (folder / "config.json").is_file() else None


def _code_path(name: str) -> tuple[Path, str]:
    path, _, function = name.rpartition(CODE)
    file = Path(f"{path}.py").expanduser()
    if not file.is_file() or not function.isidentifier():
        raise UsageError(
            f"--student {name}: there is no file {file}; --student takes FILE.py:FUNCTION."
            if not file.is_file()
            else f"--student {name} names no function; --student takes FILE.py:FUNCTION."
        )
    return file, function


def _load_code(name: str, sizes: Images) -> nn.Module:
    # the module that FILE.py:FUNCTION returns, called with classes, channels and size
    build = _load_function(name)
    try:
        student = build(**sizes._asdict())
    except Exception as error:
        raise _failed(name, error) from error
    if not isinstance(student, nn.Module):
        raise UsageError(f"--student {name} gives {type(student).__name__}, {DEFINE}")
    return student


def _load_function(name: str) -> Callable[..., Any]:
    file, function = _code_path(name)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None  # of every name that ends so
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _failed(name, error) from error
    build: Any = getattr(module, function, None)
    if not callable(build):
        raise UsageError(f"--student {name} is {type(build).__name__}, {DEFINE}")
    return build


def _failed(name: str, error: Exception) -> UsageError:
    return UsageError(f"--student {name} failed: {type(error).__name__}: {in_one_line(error)}")


def require_text_student(settings: TrainSettings) -> None:
    """Refuse a student that takes no texts."""
    student = settings.student or BAG
    if student != BAG and not Path(student).expanduser().is_dir():
        raise UsageError(
            f"Unknown student '{student}' of texts. Allowed: {BAG}, or a folder that "
            "save_pretrained of transformers wrote for a sequence classifier or an encoder."
        )
    if settings.student_weights is not None:
        raise UsageError(
            "--student-weights is about students of images; a folder of transformers has "
            "its own."
        )


def with_tokens(settings: TrainSettings, parts: Sequence[TextSet]) -> list[TextSet]:
    """Tokenise texts for their student."""
    if (student := settings.student or BAG) == BAG:
        return _with_own_vocabulary(parts, settings.max_length)
    return _with_pretrained_tokenizer(student, parts, settings.max_length)


def kind(examples: Data) -> str:
    """The plural noun for examples of a data set."""
    return f"{raw_examples(examples).example}s"


def raw_examples(examples: Data) -> Data:
    """The examples that features were computed from, or the examples themselves."""
    return (
        examples.computed_from
        if isinstance(examples, FeatureSet) and examples.computed_from is not None
        else examples
    )


def student_name(settings: TrainSettings, examples: Data) -> str:
    """The student's name, the default filled in."""
    if isinstance(examples, FeatureSet):
        return MLP if settings.freeze else settings.student or MLP
    if isinstance(examples, TextSet):
        return settings.student or BAG
    return image_student_name(settings, examples.images.shape[1])


def text_student(settings: TrainSettings, texts: TextSet, seed: int) -> nn.Module:
    """The student that the settings name."""
    classes = len(texts.classes)
    with seeded(seed):
        if (name := student_name(settings, texts)) == BAG:
            return BagOfTokens(texts.words, classes)
        from tutelage.models.text_classifier import text_classifier

        return text_classifier(name, classes=classes)


def _with_own_vocabulary(parts: Sequence[TextSet], max_length: int) -> list[TextSet]:
    from tutelage_cli.data.text.vocabulary import Vocabulary

    sides = parts[0].sides
    vocabulary = Vocabulary.learn(
        (text.casefold() for side in sides for text in side), VOCABULARY_SIZE
    )

    def tokens(texts: TextSet) -> Tensor:
        each = [
            vocabulary.encode([t.casefold() for t in side], max_length) for side in texts.sides
        ]
        lengths = [[len(words) for words in side] for side in each]
        ends = torch.tensor(lengths, dtype=torch.int64).cumsum(0)
        columns = torch.arange(max(ends[-1].tolist(), default=0))
        there = columns < ends[-1][:, None]
        padded = torch.zeros(len(there), 3, len(columns), dtype=torch.int32)
        words = [word for text in zip(*each, strict=True) for side in text for word in side]
        padded[:, 0][there] = torch.tensor(words, dtype=torch.int32)
        for end in ends[:-1]:
            padded[:, 1] += there & (columns >= end[:, None])
        padded[:, 2] = there
        return padded

    return _with_tokens(parts, tokens, len(vocabulary))


def _with_pretrained_tokenizer(
    folder: str, parts: Sequence[TextSet], max_length: int
) -> list[TextSet]:
    from tutelage.models.pretrained import refuse_other_tokens, refuse_short, tokenizer_in
    from tutelage.models.text_classifier import text_classifier
    from tutelage_cli.data.text.tokens import tokenised

    path = Path(folder).expanduser()
    tokenizer = tokenizer_in(path)
    model = text_classifier(str(path), classes=2).model.eval()
    refuse_other_tokens(path, model, len(tokenizer), "give a folder with its own tokenizer")
    refuse_short(path, model, tokenizer, max_length, "give a smaller --max-length")
    return _with_tokens(
        parts,
        lambda texts: tokenised(texts.sides, tokenizer, max_length).inputs,
        len(tokenizer),
    )


def _with_tokens(
    parts: Sequence[TextSet], tokens: Callable[[TextSet], Tensor], words: int
) -> list[TextSet]:
    return [replace(texts, tokens=tokens(texts), words=words) for texts in parts]

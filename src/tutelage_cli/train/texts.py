"""Studies of texts: tokens and students; names of kinds of examples."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.models.bag_of_tokens import BagOfTokens
from tutelage.models.heads import MLP
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import image_student_name

BAG = "bag"
"""the default student of texts"""
VOCABULARY_SIZE = 8000
"""tokens of a vocabulary learned from the texts"""
Data = ImageSet | TextSet | FeatureSet


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
    """Tokenise texts for their student.

    Note: raises ``UsageError`` where the student's folder does not fit.
    """
    if (student := settings.student or BAG) == BAG:
        return _with_own_vocabulary(parts, settings.max_length)
    return _with_pretrained_tokenizer(student, parts, settings.max_length)


def kind(of: Data) -> str:
    """The plural noun for examples of a data set."""
    return f"{raw_examples(of).example}s"


def raw_examples(of: Data) -> Data:
    """The examples that features were computed from, or the examples themselves."""
    return of.of if isinstance(of, FeatureSet) and of.of is not None else of


def student_name(settings: TrainSettings, of: Data) -> str:
    """The student's name, the default filled in."""
    if isinstance(of, FeatureSet):
        return MLP if settings.freeze else settings.student or MLP
    if isinstance(of, TextSet):
        return settings.student or BAG
    return image_student_name(settings, of.images.shape[1])


def text_student(settings: TrainSettings, texts: TextSet, seed: int) -> nn.Module:
    """The student that the settings name."""
    classes = len(texts.classes)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
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

    def tokens(of: TextSet) -> Tensor:
        each = [
            vocabulary.encode([t.casefold() for t in side], max_length) for side in of.sides
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
        parts, lambda of: tokenised(of.sides, tokenizer, max_length).inputs, len(tokenizer)
    )


def _with_tokens(
    parts: Sequence[TextSet], tokens: Callable[[TextSet], Tensor], words: int
) -> list[TextSet]:
    return [replace(of, tokens=tokens(of), words=words) for of in parts]

"""A study of texts in place of images: its tokens, its batches, its student."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from tutelage.errors import UsageError
from tutelage.models.bag_of_tokens import BagOfTokens
from tutelage_cli.data.images import ImageSet
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.text.own_tables import read_own_texts
from tutelage_cli.data.text.text_set import TextParts, TextSet
from tutelage_cli.train.settings import ON_IMAGES, TrainSettings

BAG, CNN = "bag", "cnn"
"""students of texts and of images where the settings name none"""
WORDS = 8000
"""tokens of the vocabulary that is made of one's own texts"""
Data = ImageSet | TextSet


def of_texts(settings: TrainSettings, columns: tuple[str, ...], reading: Reading) -> TextParts:
    """Read texts and tokenise them as their student wants them.

    Args:
        settings: The study's settings.
        columns: Of the texts.
        reading: What becomes of rows without a label.

    Returns:
        Both parts.

    Raises:
        UsageError: If they cannot be read, settings are about images, or there is no such
            student.
    """
    for name in ON_IMAGES:
        if getattr(settings, name) != getattr(TrainSettings, name):
            raise UsageError(
                f"{name} is about images, but {settings.data} holds texts in "
                f"{' and '.join(columns)}: leave it out."
            )
    student = settings.student or BAG
    if student != BAG and not Path(student).expanduser().is_dir():
        raise UsageError(
            f"Unknown student '{student}' of texts. Allowed: {BAG}, or a folder that "
            "save_pretrained of transformers wrote for a sequence classifier or an encoder."
        )
    label = settings.label_column if settings.labels_from is None else None
    parts = read_own_texts(settings.data, columns, label_column=label, reading=reading)
    if student == BAG:
        return _in_own_words(parts, settings.longest)
    return _in_words_of(student, parts, settings.longest)


def kind(of: Data) -> str:
    """What examples are, in words.

    Args:
        of: A data set.

    Returns:
        ``images`` or ``texts``.
    """
    return "texts" if isinstance(of, TextSet) else "images"


def student_name(settings: TrainSettings, of: Data) -> str:
    """The student's name, the default filled in.

    Args:
        settings: The study's settings.
        of: What it is trained on.

    Returns:
        As ``--student`` takes it.
    """
    return settings.student or (BAG if isinstance(of, TextSet) else CNN)


def text_student(settings: TrainSettings, texts: TextSet, seed: int) -> nn.Module:
    """The student that the settings name.

    Args:
        settings: The study's settings.
        texts: What it is trained on.
        seed: Of its first weights, those that are new.

    Returns:
        The student, on the CPU.
    """
    classes = len(texts.classes)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if (name := student_name(settings, texts)) == BAG:
            return BagOfTokens(texts.words, classes)
        from tutelage.models.text_classifier import text_classifier

        return text_classifier(name, classes=classes)


def _in_own_words(parts: TextParts, longest: int) -> TextParts:
    from tutelage_cli.data.text.vocabulary import Vocabulary

    sides = parts.train.sides
    known = Vocabulary.learn((text.casefold() for side in sides for text in side), WORDS)

    def tokens(of: TextSet) -> Tensor:
        each = [known.encode([t.casefold() for t in side], longest) for side in of.sides]
        rows = [
            [(word, place) for place, side in enumerate(text) for word in side]
            for text in zip(*each, strict=True)
        ]
        made = torch.zeros(len(rows), 3, max(map(len, rows)), dtype=torch.int32)
        for row, text in enumerate(rows):
            words, places = zip(*text, strict=True)
            made[row, :, : len(text)] = torch.tensor([words, places, [1] * len(text)])
        return made

    return _with_tokens(parts, tokens, len(known))


def _in_words_of(folder: str, parts: TextParts, longest: int) -> TextParts:
    from tutelage.models.pretrained import refuse_other_tokens, refuse_short, tokenizer_in
    from tutelage.models.text_classifier import text_classifier
    from tutelage_cli.data.text.tokens import tokenised

    place = Path(folder).expanduser()
    tokenizer = tokenizer_in(place)
    model = text_classifier(str(place), classes=2).model.eval()
    refuse_other_tokens(place, model, len(tokenizer), "give a folder with its own tokenizer")
    refuse_short(place, model, tokenizer, longest, "give a smaller longest")
    return _with_tokens(
        parts, lambda of: tokenised(of.sides, tokenizer, longest).inputs, len(tokenizer)
    )


def _with_tokens(
    parts: TextParts, tokens: Callable[[TextSet], Tensor], words: int
) -> TextParts:
    train, test = (replace(of, tokens=tokens(of), words=words) for of in parts[:2])
    return TextParts(train, test, parts.notes)

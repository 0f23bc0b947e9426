"""A translation model trained without a teacher, and the evaluation of such models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import torch
from joblib import Memory
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.optim import Adam
from torch.optim.lr_scheduler import LambdaLR

from papers.data.text import PairBatches, Pairs, masked, mispaired, read_pairs
from papers.framework.settings import RecipeSettings, Share
from papers.models.translator import Translator, marian
from papers.students import endless, find_folder
from tutelage.errors import MissingExtraError, UsageError
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.losses.objectives import TokenCrossEntropy
from tutelage.randomness import seeded
from tutelage.storage.json_files import environment
from tutelage.teachers import Plain
from tutelage.training.tutor import Tutor
from tutelage.types import Observation, Progress, as_prepared
from tutelage_cli.data.cache import cache_folder
from tutelage_cli.data.text.vocabulary import END, PAD, START, Vocabulary

HEADS = 4  # of attention
CORRUPTION_SEED = 1  # the same for all seeds, since they start from the same checkpoint


@dataclass(frozen=True)
class TranslationSettings(RecipeSettings):
    """Settings of a job; the defaults are the paper's, or ours where it gives none."""

    data: str = "multi30k"
    """folder of sentence pairs in German and English, in ``$TUTELAGE_DATA`` or a path"""
    pairs: int | None = None  # to train on; None for all, also below
    held_out: int | None = 500  # right pairs of the held-out loss
    tested: int | None = None  # test pairs
    words: int = 10_000  # tokens of both languages together
    longest: int = 100  # tokens of a sentence
    width: int = 512  # of a state; twice that in feed-forward layers
    layers: int = 6  # of encoder and of decoder
    dropout: Share = 0.3  # in training without a teacher; none in fine-tuning
    first_steps: int = 40_000  # of Adam, without a teacher
    first_batch: int = 160  # pairs
    first_lr: float = 5e-4  # of Adam, after its warm-up
    warm_up: int = 4000
    """warm-up steps of Adam's learning rate, which then decays with the inverse square root"""
    smoothing: Share = 0.1  # of labels, in training without a teacher
    steps: int = 4000  # of momentum SGD, in fine-tuning with the teacher
    batch: int = 160  # pairs; held-out ones, too
    lr: float = 1e-3  # of momentum SGD at its first step; decays linearly to 0
    every: int = 20  # student steps between two teacher steps
    back: int = 2  # student steps that the teacher's gradient looks back over
    teacher_lr: float = 1e-3  # of its Adam
    pair_rate: Share = 0.1  # share of pairs with masked tokens
    token_rate: Share = 0.15  # share of their tokens that are masked
    mispaired: Share = 0.4  # share of pairs that get the translation of another
    beams: int = 5  # of beam search

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % HEADS:
            raise UsageError(f"width must be a multiple of {HEADS}, got {self.width}.")
        if self.back > self.every:
            raise UsageError(
                f"back is {self.back}, but there are only {self.every} student steps for each "
                f"of the teacher's: give every {self.back} or more."
            )


class Material(NamedTuple):
    """Sentence pairs as tokens."""

    vocabulary: Vocabulary
    train: Pairs  # right
    held_out: Pairs
    test: Pairs
    references: list[str]  # of the test pairs


@cache
def read_material(settings: TranslationSettings) -> Material:
    """Read the pairs, in lower case as the paper's, once in each process."""
    folder = find_folder(
        settings.data,
        "set TUTELAGE_DATA to a folder that holds it, or give --set data=FOLDER with sentence "
        "pairs in columns or files de and en",
    )
    parts = read_pairs(folder, "de", "en")
    if parts.held_out is None or parts.test is None:
        raise UsageError(f"{settings.data} lacks a held-out or a test part.")
    sizes = settings.pairs, settings.held_out, settings.tested
    train, held_out, test = (
        part.rows(torch.arange(len(part))[:size]).lower()
        for part, size in zip((parts.train, parts.held_out, parts.test), sizes, strict=True)
    )
    words = Vocabulary.learn([*train.sources, *train.targets], settings.words)
    first, second, third = (
        part.encoded(words, settings.longest) for part in (train, held_out, test)
    )
    return Material(words, first, second, third, list(test.targets))


def corrupted(noise: str, settings: TranslationSettings, right: Pairs) -> tuple[Pairs, Tensor]:
    """Corrupt some pairs."""
    if noise == "masked":
        return masked(right, settings.pair_rate, settings.token_rate, seed=CORRUPTION_SEED)
    if noise == "mispaired":
        return mispaired(right, settings.mispaired, seed=CORRUPTION_SEED)
    return right, torch.zeros(len(right), dtype=torch.bool)


def build_translator(settings: TranslationSettings, words: int) -> Translator:
    """Build a Transformer with the same initialisation each time."""
    with seeded(0):
        return marian(
            words,
            (PAD, START, END),
            width=settings.width,
            hidden=2 * settings.width,
            layers=settings.layers,
            heads=HEADS,
            dropout=settings.dropout,
            longest=settings.longest,
        )


def _first(
    noise: str, settings: TranslationSettings, device: str, _releases: str
) -> dict[str, Tensor]:
    # from all pairs, right or wrong, without a teacher
    material, place = read_material(settings), torch.device(device)
    pairs, _ = corrupted(noise, settings, material.train)
    student = build_translator(settings, len(material.vocabulary)).to(place)
    rule = Adam(student.parameters(), settings.first_lr, (0.9, 0.98))
    warm_up = settings.warm_up
    pace = LambdaLR(rule, lambda n: min((n + 1) / warm_up, (warm_up / (n + 1)) ** 0.5))
    objective = TokenCrossEntropy(settings.smoothing)
    tutor = Tutor(student, rule, Plain(), objective=objective)
    batches = endless(PairBatches(pairs, settings.first_batch, 0, place))
    for batch in islice(batches, settings.first_steps):
        tutor.step(batch)
        pace.step()
    return {name: tensor.cpu() for name, tensor in student.state_dict().items()}


def pretrained(
    noise: str, settings: TranslationSettings, device: torch.device
) -> dict[str, Tensor]:
    """The checkpoint from which all arms and seeds start; kept in the user's cache folder."""
    kept: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_first)
    return kept(noise, settings, device.type, str(environment()))


@torch.no_grad()
def mean_loss(student: Translator, batches: PairBatches) -> float:
    """The mean loss without label smoothing."""
    loss = TokenCrossEntropy()
    return float(
        torch.cat([loss(student(b.inputs), b.targets) for b in batches.whole(100)]).mean()
    )


@torch.no_grad()
def _weights(tutor: Tutor, batches: PairBatches) -> tuple[Tensor, Tensor, Tensor]:
    # of pairs in batches of like length, as the student saw them: ids, weights, losses
    student, teacher, found = tutor.student, tutor.teacher, []
    for batch in islice(batches.epoch(0), 1 + 1500 // batches.size):
        taps = getattr(teacher, "taps", ())
        with record_outputs(student, taps) as features:
            logits = student(batch.inputs)
        losses = TokenCrossEntropy()(logits, batch.targets)
        seen = Observation(losses, logits, features, Progress())
        weigh = getattr(teacher, "weigh", None)
        weights = torch.ones_like(losses) if weigh is None else weigh(as_prepared(batch), seen)
        found.append((batch.ids, weights, losses))
    ids, weights, losses = (torch.cat(each).cpu() for each in zip(*found, strict=True))
    return ids, weights, losses


def separation(tutor: Tutor, batches: PairBatches, wrong: Tensor) -> Mapping[str, float]:
    """How well a teacher's weights, and the loss, separate right from wrong pairs."""
    ids, weights, losses = _weights(tutor, batches)
    bad = wrong[ids]
    if bad.all() or not bad.any():  # nothing to tell apart
        mean = float(weights.mean())
        return {"auroc": 0.5, "loss_auroc": 0.5, "right": mean, "wrong": mean}
    return {
        "auroc": float(roc_auc_score(~bad, weights)),
        "loss_auroc": float(roc_auc_score(~bad, -losses)),
        "right": float(weights[~bad].mean()),
        "wrong": float(weights[bad].mean()),
    }


def translation_bleu(
    student: Translator, test: PairBatches, settings: TranslationSettings, material: Material
) -> float:
    """BLEU of a student's translations of the test pairs."""
    outputs: dict[int, str] = {}
    for batch in test.whole(100):
        sources, options = batch.inputs[:, 0], (settings.beams, settings.longest)
        texts = material.vocabulary.decode(student.translate(sources, *options))
        outputs |= dict(zip(batch.ids.tolist(), texts, strict=True))
    return bleu([outputs[n] for n in sorted(outputs)], material.references)


def bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU in lower case, one reference a sentence, as sacreBLEU has it.

    Without smoothing beyond sacreBLEU's own (exponential): where all outputs together have no
    four words in a row it is 0, even if every word is right.

    Source: Papineni et al. 2002; Post 2018, A Call for Clarity in Reporting BLEU Scores.
    """
    if len(outputs) != len(references) or not outputs:
        raise UsageError(
            f"{len(outputs)} outputs but {len(references)} references; give one for each, and "
            "one at least."
        )
    try:
        from sacrebleu import corpus_bleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "papers") from error
    return float(corpus_bleu(list(outputs), [list(references)], lowercase=True).score)

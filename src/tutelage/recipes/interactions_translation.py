"""Which sentence pairs count: a teacher beside a Transformer that is fine-tuned to translate.

Fan et al. 2021, section 5 and Table 7. Figures: ``docs/results.md``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from joblib import Memory
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import LambdaLR

from tutelage.data.cache import cache_folder
from tutelage.data.local import local_folder
from tutelage.data.text.encoded import EncodedPairs, encoded, masked, mispaired
from tutelage.data.text.pair_batches import PairBatches
from tutelage.data.text.pairs import read_pairs
from tutelage.data.text.vocabulary import END, PAD, START, Vocabulary
from tutelage.errors import UsageError
from tutelage.metrics import bleu
from tutelage.models.translator import STATE, Translator, marian
from tutelage.objectives import TokenCrossEntropy
from tutelage.randomness import mixed_seed, seeded
from tutelage.records import Batch, Observation, Progress, as_lesson
from tutelage.reproduction.claims import Claim, Comparison
from tutelage.reproduction.recipe import Outcome, Plot, Recipe
from tutelage.runs import environment
from tutelage.signals import Reversible
from tutelage.student import tapped
from tutelage.teachers import InternalState, Plain, SelfPaced
from tutelage.tutor import Tutor

ARMS = (
    *(f"{noise}.{how}" for noise in ("clean", "masked") for how in ("none", "state")),
    *(f"mispaired.{how}" for how in ("none", "surface", "rule", "right-only")),
)
"""what is wrong with the pairs, and who decides which count"""
ROWS = {"clean": "IWSLT'14 De->En (clean)", "masked": "IWSLT'14 De->En (noisy)"}
COLUMNS = {"none": "Baseline", "state": "Ours"}
LOOKS = 5
"""how often the held-out loss is taken while it is fine-tuned, and once before"""
SPOILT_AT = 1
"""seed of what is spoilt, one for all, since they begin with the same student"""


@dataclass(frozen=True)
class Settings:
    """What decides a job; the defaults are the paper's, or ours where it says nothing."""

    data: str = "multi30k"
    """folder of sentence pairs in German and English, in ``$TUTELAGE_DATA`` or a path"""
    pairs: int | None = None
    """to train on; None for all, also below"""
    held_out: int | None = 500
    """right pairs that judge the teacher"""
    tested: int | None = None
    """test pairs"""
    words: int = 10_000
    """tokens of both languages together"""
    longest: int = 100
    """tokens of a sentence"""
    width: int = 512
    """of a state; twice that in feed-forward layers"""
    layers: int = 6
    """of encoder and of decoder"""
    dropout: float = 0.3
    """before the teacher comes; none afterwards"""
    first_steps: int = 40_000
    """of Adam, before the teacher comes"""
    first_batch: int = 160
    """pairs"""
    first_lr: float = 5e-4
    """of Adam, after its warm-up"""
    warm_up: int = 4000
    """steps in which Adam's learning rate rises; it falls with the root of their number then"""
    smoothing: float = 0.1
    """of labels, before the teacher comes"""
    steps: int = 4000
    """of momentum SGD, under the teacher"""
    batch: int = 160
    """pairs; held-out ones, too"""
    lr: float = 1e-3
    """of momentum SGD at its first step; falls to 0 in a line"""
    every: int = 20
    """student steps for each of the teacher's"""
    back: int = 2
    """student steps that it looks back over"""
    teacher_lr: float = 1e-3
    """of its Adam"""
    pair_rate: float = 0.1
    """share of pairs with masked tokens"""
    token_rate: float = 0.15
    """share of their tokens that are masked"""
    mispaired: float = 0.4
    """share of pairs that get another's translation"""
    beams: int = 5
    """of the search for translations"""


class Material(NamedTuple):
    """Sentence pairs as tokens."""

    vocabulary: Vocabulary
    train: EncodedPairs
    """right"""
    held_out: EncodedPairs
    test: EncodedPairs
    references: list[str]
    """of the test pairs"""


def _folder(of: Settings) -> Path:
    if Path(of.data).expanduser().is_dir():
        return Path(of.data).expanduser()
    copy = local_folder(of.data)
    if copy is None:
        raise UsageError(
            f"{of.data} is not here: set TUTELAGE_DATA to a folder that holds it, or give "
            "--set data=FOLDER with sentence pairs in columns or files de and en."
        )
    return copy


@cache
def _material(of: Settings) -> Material:
    # in lower case, as the paper's; read once in each process
    parts = read_pairs(_folder(of), "de", "en")
    if parts.held_out is None or parts.test is None:
        raise UsageError(f"{of.data} lacks a held-out or a test part.")
    rows = [
        part.rows(torch.arange(len(part))[:number])
        for part, number in zip(parts, (of.pairs, of.held_out, of.tested), strict=True)
        if part is not None
    ]
    low = [part.lower() for part in rows]
    words = Vocabulary.learn([*low[0].sources, *low[0].targets], of.words)
    train, held_out, test = (encoded(part, words, of.longest) for part in low)
    return Material(words, train, held_out, test, list(low[2].targets))


def _spoilt(noise: str, of: Settings, right: EncodedPairs) -> tuple[EncodedPairs, Tensor]:
    if noise == "masked":
        return masked(right, of.pair_rate, of.token_rate, seed=SPOILT_AT)
    if noise == "mispaired":
        return mispaired(right, of.mispaired, seed=SPOILT_AT)
    return right, torch.zeros(len(right), dtype=torch.bool)


def _student(of: Settings, words: int) -> Translator:
    sizes = {"width": of.width, "hidden": 2 * of.width, "layers": of.layers, "heads": 4}
    with seeded(0, torch.device("cpu")):
        special = PAD, START, END
        return marian(words, special, **sizes, dropout=of.dropout, longest=of.longest)


def _stream(batches: PairBatches, steps: int) -> Iterator[Batch]:
    return islice(chain.from_iterable(map(batches.epoch, count())), steps)


def _root(step: int, warm_up: int) -> float:
    return min((step + 1) / warm_up, (warm_up / (step + 1)) ** 0.5)


def _line(step: int, steps: int) -> float:
    return 1 - step / steps


def _first(noise: str, of: Settings, device: str, _releases: str) -> dict[str, Tensor]:
    # a student that has learned from all pairs, right or wrong, without a teacher
    material, place = _material(of), torch.device(device)
    pairs, _ = _spoilt(noise, of, material.train)
    student = _student(of, len(material.vocabulary)).to(place)
    rule = Adam(student.parameters(), of.first_lr, (0.9, 0.98))
    pace = LambdaLR(rule, partial(_root, warm_up=of.warm_up))
    objective = TokenCrossEntropy(of.smoothing)
    tutor = Tutor(student, rule, Plain(), objective=objective)
    for batch in _stream(PairBatches(pairs, of.first_batch, 0, place), of.first_steps):
        tutor.step(batch)
        pace.step()
    return {name: tensor.cpu() for name, tensor in student.state_dict().items()}


def _begun(noise: str, of: Settings, device: torch.device) -> dict[str, Tensor]:
    # learned once, and kept in the user's cache folder for all arms and seeds
    kept: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_first)
    return kept(noise, of, device.type, str(environment()))


def _prepare(of: Settings) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for noise in dict.fromkeys(arm.split(".")[0] for arm in ARMS):
        _begun(noise, of, device)


def _teacher(how: str, student: Translator, of: Settings) -> nn.Module:
    if how == "rule":  # of each batch, all but the share of wrong pairs with the highest loss
        share = 1 - of.mispaired
        return SelfPaced(start=share, end=share)
    if how == "state":
        return InternalState(student, classes=2, tap=STATE, tap_width=of.width, label=False)
    if how == "surface":
        facts = ("margin", "loss")
        return InternalState(student, classes=2, label=False, surface=facts)
    return Plain()


@torch.no_grad()
def _loss(student: Translator, batches: PairBatches) -> float:
    parts = [
        TokenCrossEntropy()(student(batch.inputs), batch.targets)
        for batch in batches.whole(100)
    ]
    return float(torch.cat(parts).mean())


@torch.no_grad()
def _weights(tutor: Tutor, batches: PairBatches) -> tuple[Tensor, Tensor, Tensor]:
    # of pairs in batches of like length, as the student saw them: ids, weights, losses
    student, teacher, found = tutor.student, tutor.teacher, []
    for batch in islice(batches.epoch(0), 1 + 1500 // batches.size):
        taps = getattr(teacher, "taps", ())
        with tapped(student, taps) as features:
            logits = student(batch.inputs)
        losses = TokenCrossEntropy()(logits, batch.targets)
        seen = Observation(losses, logits, features, Progress())
        weigh = getattr(teacher, "weigh", None)
        weights = torch.ones_like(losses) if weigh is None else weigh(as_lesson(batch), seen)
        found.append((batch.ids, weights, losses))
    ids, weights, losses = (torch.cat(each).cpu() for each in zip(*found, strict=True))
    return ids, weights, losses


def _told(tutor: Tutor, batches: PairBatches, wrong: Tensor) -> Mapping[str, float]:
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


def _translated(student: Translator, test: PairBatches, of: Settings, by: Material) -> float:
    said: dict[int, str] = {}
    for batch in test.whole(100):
        found = student.translate(batch.inputs[:, 0], beams=of.beams, longest=of.longest)
        said |= dict(zip(batch.ids.tolist(), by.vocabulary.decode(found), strict=True))
    return bleu([said[n] for n in sorted(said)], by.references, lower_case=True)


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Fine-tune a student, from where all begin, and see what it is worth.

    Args:
        arm: What is wrong with the pairs, and who decides which count.
        seed: Of the order of pairs, and of held-out ones.
        settings: The scale's.
        device: Where.

    Returns:
        Test scores, and how the weights tell right pairs from wrong ones.
    """
    noise, how = arm.split(".")
    material = _material(settings)
    pairs, wrong = _spoilt(noise, settings, material.train)
    if how == "right-only":
        pairs = pairs.rows((~wrong).nonzero().flatten())
    student = _student(settings, len(material.vocabulary)).to(device)
    student.load_state_dict(_begun(noise, settings, device))
    student.eval()
    teacher = _teacher(how, student, settings).to(device)
    learns = next(teacher.parameters(), None) is not None
    rule = SGD(student.parameters(), settings.lr, momentum=0.9)
    tutor = Tutor(
        student,
        rule,
        teacher,
        Adam(teacher.parameters(), settings.teacher_lr) if learns else None,
        signal=Reversible(settings.back) if learns else None,
        teacher_every=settings.every,
        total_steps=settings.steps,
        objective=TokenCrossEntropy(),
        seed=seed,
    )
    train, judging, testing = (
        PairBatches(part, settings.batch, mixed_seed(seed, 1), device)
        for part in (pairs, material.held_out, material.test)
    )
    looks, pace = (
        [_loss(student, judging)],
        LambdaLR(rule, partial(_line, steps=settings.steps)),
    )
    for number, batch in enumerate(_stream(train, settings.steps), 1):
        tutor.step(batch, judging.draw(number) if tutor.wants_held_out else None)
        pace.step()
        if number % max(1, settings.steps // LOOKS) == 0:
            looks.append(_loss(student, judging))
    metrics = {
        "bleu": _translated(student, testing, settings, material),
        "test_loss": _loss(student, testing),
        **_told(tutor, train, wrong),
    }
    return Outcome(metrics, {"held_out": looks})


def _below(arm: str, other: str, metric: str) -> Comparison:
    return Comparison((arm, metric), "below", (other, metric))


RECIPE = Recipe(
    name="interactions-translation",
    title="A teacher beside a translator gives wrong sentence pairs less weight.",
    paper="l2tdi",
    where="Table 7",
    arms=ARMS,
    metrics={
        "bleu": "of test sentences by beam search, in lower case, 0 to 100",
        "test_loss": "mean over test pairs of the mean over tokens, nats",
        "auroc": "how well weights tell right pairs from wrong ones; chance is 0.5",
        "loss_auroc": "how well the loss does, lowest first",
        "right": "mean weight of right pairs",
        "wrong": "mean weight of wrong pairs",
    },
    settings={
        "smoke": Settings(
            pairs=60,
            held_out=8,
            tested=6,
            words=300,
            longest=12,
            width=8,
            layers=1,
            first_steps=2,
            first_batch=4,
            steps=2,
            batch=4,
            every=2,
            beams=1,
        ),
        "mini": Settings(
            tested=300,
            words=4000,
            longest=40,
            width=128,
            layers=2,
            dropout=0.1,
            first_steps=800,
            first_batch=64,
            first_lr=2e-3,
            warm_up=200,
            smoothing=0.0,
            steps=150,
            batch=32,
            lr=0.1,
            every=2,
            teacher_lr=0.1,
            pair_rate=0.5,
            token_rate=0.3,
            beams=1,
        ),
        "gpu": Settings(
            width=256,
            layers=4,
            first_steps=2500,
            first_batch=256,
            first_lr=1e-3,
            warm_up=500,
            steps=400,
            batch=64,
            lr=0.1,
            every=5,
            teacher_lr=0.05,
        ),
        "paper": Settings(),
    },
    minutes={"smoke": 0.5, "mini": 15, "gpu": 10, "paper": 300},
    run=run,
    claims=(
        Claim(
            "The teacher that sees the decoder's state gives better translations, of pairs as "
            "they are and of masked ones.",
            tuple(
                Comparison((f"{noise}.state", "bleu"), "above", (f"{noise}.none", "bleu"))
                for noise in ("clean", "masked")
            ),
        ),
        Claim(
            "Where pairs have another's translation, a teacher that sees margin and loss gives "
            "these less weight.",
            (
                Comparison(("mispaired.surface", "auroc"), "above", 0.7),
                Comparison(
                    ("mispaired.surface", "right"), "above", ("mispaired.surface", "wrong")
                ),
            ),
            of_paper=False,
        ),
        Claim(
            "Test loss is lower under it than without a teacher.",
            (_below("mispaired.surface", "mispaired.none", "test_loss"),),
            of_paper=False,
        ),
    ),
    table="Table 7",
    printed={
        (f"{noise}.{how}", "bleu"): (row, column)
        for noise, row in ROWS.items()
        for how, column in COLUMNS.items()
    },
    plots=(
        Plot(
            "Held-out loss, pairs with another's translation",
            "nats",
            {
                how: (f"mispaired.{how}", "held_out")
                for how in ("none", "surface", "rule", "right-only")
            },
            across="look, the first before fine-tuning",
        ),
        Plot(
            "Held-out loss, other pairs",
            "nats",
            {arm: (arm, "held_out") for arm in ARMS if not arm.startswith("mis")},
            across="look, the first before fine-tuning",
        ),
    ),
    prepare=_prepare,
    notes=(
        "Multi30k, German to English, stands for IWSLT'14, which --set data=FOLDER takes once "
        "it is written as train.de, train.en and so on; BLEU is sacreBLEU's, not that of "
        "multi-bleu.perl.",
        "All arms and seeds of one kind of noise begin with the same student, trained without "
        "a teacher on all pairs; seeds differ in the order of pairs and in held-out batches.",
        "mispaired, our own noise, gives 40% of pairs another pair's translation. There rule "
        "keeps of each batch the 60% with the lowest loss, and right-only trains on the right "
        "pairs alone, which nobody knows in practice.",
        "Dropout is off once the teacher comes. The paper does not say how long it teaches.",
        "At mini scale sentences are translated greedily, half the pairs have 30% of their "
        "tokens masked (paper: a tenth, 15%), the student has 2+2 layers of 128, fine-tuning "
        "is 150 steps at learning rate 0.1, and the teacher's Adam takes 0.1 every 2 steps. "
        "Trials with another program showed no effect of the paper's noise and feature at "
        "this size.",
    ),
)

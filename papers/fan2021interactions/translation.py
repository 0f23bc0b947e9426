"""Weights of sentence pairs: a teacher of a Transformer that is fine-tuned for translation.

Fan et al. 2021, section 5 and Table 7. Figures: ``docs/results.md``.
"""

from itertools import islice

import torch
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import LambdaLR

from papers.data.text import PairBatches
from papers.fan2021interactions.translators import (
    TranslationSettings,
    build_translator,
    corrupted,
    mean_loss,
    pretrained,
    read_material,
    separation,
    translation_bleu,
)
from papers.framework.recipe import Outcome, Plot, Recipe, above, below, curves, expectation
from papers.models.translator import STATE, Translator
from papers.students import endless
from tutelage.losses.objectives import TokenCrossEntropy
from tutelage.randomness import mixed_seed
from tutelage.signals import Reversible
from tutelage.teachers import InternalState, Plain, SelfPaced
from tutelage.training.tutor import Tutor
from tutelage_cli.claims import Claim

ARMS = (
    *(f"{noise}.{how}" for noise in ("clean", "masked") for how in ("none", "state")),
    *(f"mispaired.{how}" for how in ("none", "surface", "rule", "right-only")),
)
"""noise of the pairs, and what weights them"""
ROWS = {"clean": "IWSLT'14 De->En (clean)", "masked": "IWSLT'14 De->En (noisy)"}
COLUMNS = {"none": "Baseline", "state": "Ours"}
EVALUATIONS = 5  # evaluations of the held-out loss during fine-tuning, besides one before


def _prepare(settings: TranslationSettings) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for noise in dict.fromkeys(arm.split(".")[0] for arm in ARMS):
        pretrained(noise, settings, device)


def _teacher(name: str, student: Translator, settings: TranslationSettings) -> nn.Module:
    if name == "rule":  # of each batch, all but the share of wrong pairs with the highest loss
        share = 1 - settings.mispaired
        return SelfPaced(start=share, end=share)
    if name == "state":
        return InternalState(
            student, classes=2, tap=STATE, tap_width=settings.width, label=False
        )
    if name == "surface":
        facts = ("margin", "loss")
        return InternalState(student, classes=2, label=False, surface=facts)
    return Plain()


def run(arm: str, seed: int, settings: TranslationSettings, device: torch.device) -> Outcome:
    """Fine-tune a student from the common checkpoint, and evaluate it."""
    noise, name = arm.split(".")
    material = read_material(settings)
    pairs, wrong = corrupted(noise, settings, material.train)
    if name == "right-only":
        pairs = pairs.rows((~wrong).nonzero().flatten())
    student = build_translator(settings, len(material.vocabulary)).to(device)
    student.load_state_dict(pretrained(noise, settings, device))
    student.eval()
    teacher = _teacher(name, student, settings).to(device)
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
    losses = [mean_loss(student, judging)]
    pace = LambdaLR(rule, lambda step: 1 - step / settings.steps)
    for number, batch in enumerate(islice(endless(train), settings.steps), 1):
        tutor.step(batch, judging.draw(number) if tutor.wants_held_out else None)
        pace.step()
        if number % max(1, settings.steps // EVALUATIONS) == 0:
            losses.append(mean_loss(student, judging))
    metrics = {
        "bleu": translation_bleu(student, testing, settings, material),
        "test_loss": mean_loss(student, testing),
        **separation(tutor, train, wrong),
    }
    return Outcome(metrics, {"held_out": losses})


RECIPE = Recipe(
    name="interactions-translation",
    title="A teacher of a translation model gives wrong sentence pairs lower weights.",
    paper="l2tdi",
    where="Table 7",
    arms=ARMS,
    metrics={
        "bleu": "on test sentences by beam search, in lower case, 0 to 100",
        "test_loss": "mean over test pairs of the mean over tokens, nats",
        "auroc": "AUROC of the weights for right against wrong pairs; chance is 0.5",
        "loss_auroc": "the same of the loss, lowest first",
        "right": "mean weight of right pairs",
        "wrong": "mean weight of wrong pairs",
    },
    settings={
        "smoke": TranslationSettings(
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
        "mini": TranslationSettings(
            tested=300,
            words=4000,
            longest=40,
            width=128,
            layers=2,
            dropout=0.1,
            first_steps=1600,
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
        "gpu": TranslationSettings(
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
        "paper": TranslationSettings(),
    },
    minutes={"smoke": 0.5, "mini": 28, "gpu": 10, "paper": 300},
    run=run,
    claims=(
        Claim(
            "A teacher of the decoder state gives a higher BLEU than no teacher, with clean "
            "and with masked pairs.",
            above("bleu", "clean.state", "clean.none")
            + above("bleu", "masked.state", "masked.none"),
        ),
        expectation(
            "With mispaired translations, the weights of a teacher of margin and loss "
            "separate wrong pairs with an AUROC above 0.7, and their mean is lower for wrong "
            "pairs.",
            above("auroc", "mispaired.surface", 0.7)
            + above("right", "mispaired.surface", ("mispaired.surface", "wrong")),
        ),
        expectation(
            "With mispaired translations, a teacher of margin and loss gives a lower test "
            "loss than no teacher.",
            below("test_loss", "mispaired.surface", "mispaired.none"),
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
            "Held-out loss, mispaired translations",
            "nats",
            {
                how: (f"mispaired.{how}", "held_out")
                for how in ("none", "surface", "rule", "right-only")
            },
            across="evaluation (1: before fine-tuning)",
        ),
        curves(
            "Held-out loss, clean and masked pairs",
            "nats",
            [arm for arm in ARMS if not arm.startswith("mis")],
            "held_out",
            across="evaluation (1: before fine-tuning)",
        ),
    ),
    prepare=_prepare,
)

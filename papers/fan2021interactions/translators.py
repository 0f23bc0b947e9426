"""A translator that has learned without a teacher, and what one is worth."""

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any

import torch
from joblib import Memory
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.optim import Adam
from torch.optim.lr_scheduler import LambdaLR

from papers.data.text.pair_batches import PairBatches
from papers.fan2021interactions.translated_pairs import (
    HEADS,
    Material,
    TranslationSettings,
    read_material,
    spoilt,
)
from papers.metrics import bleu
from papers.models.translator import Translator, marian
from papers.students import endless
from tutelage.functional.student import tapped
from tutelage.losses.objectives import TokenCrossEntropy
from tutelage.randomness import seeded
from tutelage.storage.json_files import environment
from tutelage.teachers import Plain
from tutelage.training.tutor import Tutor
from tutelage.types import Observation, Progress, as_lesson
from tutelage_cli.data.cache import cache_folder
from tutelage_cli.data.text.vocabulary import END, PAD, START


def build_translator(of: TranslationSettings, words: int) -> Translator:
    """Build a Transformer that begins the same each time."""
    sizes = {"width": of.width, "hidden": 2 * of.width, "layers": of.layers, "heads": HEADS}
    with seeded(0, torch.device("cpu")):
        special = PAD, START, END
        return marian(words, special, **sizes, dropout=of.dropout, longest=of.longest)


def _root(step: int, warm_up: int) -> float:
    return min((step + 1) / warm_up, (warm_up / (step + 1)) ** 0.5)


def _first(
    noise: str, of: TranslationSettings, device: str, _releases: str
) -> dict[str, Tensor]:
    # from all pairs, right or wrong, without a teacher
    material, place = read_material(of), torch.device(device)
    pairs, _ = spoilt(noise, of, material.train)
    student = build_translator(of, len(material.vocabulary)).to(place)
    rule = Adam(student.parameters(), of.first_lr, (0.9, 0.98))
    pace = LambdaLR(rule, partial(_root, warm_up=of.warm_up))
    objective = TokenCrossEntropy(of.smoothing)
    tutor = Tutor(student, rule, Plain(), objective=objective)
    for batch in islice(endless(PairBatches(pairs, of.first_batch, 0, place)), of.first_steps):
        tutor.step(batch)
        pace.step()
    return {name: tensor.cpu() for name, tensor in student.state_dict().items()}


def taught_before(
    noise: str, of: TranslationSettings, device: torch.device
) -> dict[str, Tensor]:
    """The student with which all arms and seeds begin; kept in the user's cache folder."""
    kept: Any = Memory(cache_folder() / "recipes", verbose=0).cache(_first)
    return kept(noise, of, device.type, str(environment()))


@torch.no_grad()
def mean_loss(student: Translator, batches: PairBatches) -> float:
    """Take the loss without smoothing."""
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


def told_apart(tutor: Tutor, batches: PairBatches, wrong: Tensor) -> Mapping[str, float]:
    """How a teacher's weights, and the loss, tell right pairs from wrong ones."""
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
    student: Translator, test: PairBatches, of: TranslationSettings, by: Material
) -> float:
    """Judge a student's translations of the test pairs."""
    said: dict[int, str] = {}
    for batch in test.whole(100):
        found = student.translate(batch.inputs[:, 0], beams=of.beams, longest=of.longest)
        said |= dict(zip(batch.ids.tolist(), by.vocabulary.decode(found), strict=True))
    return bleu([said[n] for n in sorted(said)], by.references, lower_case=True)

"""What weights depend on: the loss for a teacher of surface features, the class for I0+M0.

Fan et al. 2021, Figure 2. Figures: ``docs/results.md``.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.manifold import TSNE
from sklearn.metrics import roc_auc_score
from torch import Tensor

from papers.fan2021interactions.noise import DIGITS, GPU, SMOKE
from papers.fan2021interactions.reweighting import (
    PLAIN,
    Method,
    Settings,
    Trained,
    check_arms,
    interactions,
    margin_loss,
    material_of,
    train,
    train_on,
)
from papers.framework.drawings import Drawing, scatter
from papers.framework.recipe import Outcome, Panel, Recipe, above, below, expectation
from papers.students import correlation
from tutelage.errors import MissingExtraError, UsageError
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.losses.objectives import logits_of
from tutelage.models import default_tap
from tutelage.randomness import mixed_seed
from tutelage_cli.claims import Claim
from tutelage_cli.data.batches import Batches
from tutelage_cli.data.noise import HUMAN, Noise
from tutelage_cli.train.evaluation import EVAL_BATCH_SIZE, Evaluation
from tutelage_cli.train.material import Material

METHODS: Mapping[str, Method] = {
    "T0": interactions("M1"),
    "T1": interactions("I0+M0"),
    "margin-loss": margin_loss("free"),
}
OUT_OF_SAMPLE = "confident-learning"
FOLDS = 4  # folds of the training set, each predicted by a student trained on the others
DRAWN = 300  # images in a plot


class OutOfFoldPredictions(NamedTuple):
    """Predictions of students on training images that they were not trained on."""

    probabilities: Tensor  # [N, C], on the CPU
    students: tuple[Trained, ...]  # one for each fold


def scores() -> Any:
    """The function of cleanlab that rates labels."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError as error:
        raise MissingExtraError("cleanlab", "papers") from error
    return get_label_quality_scores


def label_quality(labels: Tensor, probabilities: Tensor) -> Tensor:
    """How likely each label is right: its margin, after subtracting the class thresholds.

    Without the thresholds, which are the mean confidence of the examples given a class, the
    order would be that of margins, whatever confident learning adds to them.
    """
    rated = scores()(
        labels.numpy(),
        probabilities.double().numpy(),
        method="normalized_margin",
        adjust_pred_probs=True,
    )
    return torch.from_numpy(rated)


@torch.no_grad()
def class_probabilities(trained: Trained, batches: Batches) -> Tensor:
    """The student's class probabilities of some images, in evaluation mode."""
    student = trained.tutor.student.eval()
    found = [logits_of(student(batch.inputs)) for batch in batches.whole(EVAL_BATCH_SIZE)]
    return torch.cat(found).softmax(1).cpu()


def out_of_sample(seed: int, settings: Settings, device: torch.device) -> OutOfFoldPredictions:
    """Train a student without a teacher for each fold, with the schedule of all other arms."""
    material = material_of(settings, seed)
    count = len(material.train)
    draws = torch.Generator().manual_seed(mixed_seed(seed, FOLDS))
    found, students = torch.empty(count, len(material.train.classes)), []
    for rows in torch.randperm(count, generator=draws).chunk(FOLDS):
        kept = torch.ones(count, dtype=torch.bool).index_fill(0, rows, False).nonzero()[:, 0]
        truth = None if material.truth is None else material.truth[kept]
        part = replace(material, train=material.train.rows(kept), truth=truth)
        student = train_on(part, PLAIN, seed, settings, device)
        left_out = replace(student.streams.train, examples=material.train.rows(rows))
        found[rows] = class_probabilities(student, left_out)
        students.append(student)
    return OutOfFoldPredictions(found, tuple(students))


def between_classes(weights: Tensor, classes: Tensor) -> float:
    """``eta^2``: the share of the weights' variance that lies between classes."""
    w = weights.double()
    total = (w - w.mean()).square().sum()
    counts = torch.bincount(classes)
    sums = torch.zeros(len(counts), dtype=w.dtype).index_add(0, classes, w)
    present = counts > 0
    means = sums[present] / counts[present]
    share = (counts[present] * (means - w.mean()).square()).sum() / total
    return float(share) if total > 0 else 0.0


@torch.no_grad()
def internal_states(trained: Trained, rows: Tensor) -> Tensor:
    """I0 of some training images, the student in evaluation mode."""
    student, tap = trained.tutor.student.eval(), default_tap(trained.tutor.student)
    chosen = replace(trained.streams.train, examples=trained.material.train.rows(rows))
    states = []
    for batch in chosen.whole(EVAL_BATCH_SIZE):
        with record_outputs(student, (tap,)) as features:
            student(batch.inputs)
        states.append(features[tap].flatten(1).cpu())
    return torch.cat(states)


def _pictures(trained: Trained, seen: Evaluation, seed: int) -> dict[str, Drawing]:
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(seen.weights), generator=draws)[:DRAWN]
    names = trained.material.train.classes
    classes = [names[c] for c in trained.material.train.labels[rows].tolist()]
    w, losses = seen.weights[rows].tolist(), seen.losses[rows].tolist()
    near = TSNE(perplexity=min(30, len(rows) / 4), random_state=seed)
    place = np.asarray(near.fit_transform(internal_states(trained, rows).numpy()))
    first, second = place[:, 0].tolist(), place[:, 1].tolist()
    axes = ("first axis", "second axis")
    return {
        "loss": scatter(losses, w, ("loss, nats", "weight"), colours=classes, colour="label"),
        "classes": scatter(first, second, axes, colours=classes, colour="label"),
        "weights": scatter(first, second, axes, colours=w, colour="weight"),
    }


def _facts(
    weights: Tensor, losses: Tensor, probabilities: Tensor, material: Material
) -> dict[str, float]:
    labels, wrong = material.train.labels, material.wrong
    assert wrong is not None
    quality = label_quality(labels, probabilities)
    return {
        "weight_loss": correlation(weights.double(), losses.double(), constant=0.0),
        "eta2": between_classes(weights, labels),
        "auroc": float(roc_auc_score(~wrong, weights)),
        "auroc_loss": float(roc_auc_score(~wrong, -losses)),
        "auroc_confident": float(roc_auc_score(~wrong, quality)),
    }


def _unseen(seed: int, settings: Settings, device: torch.device) -> Outcome:
    found, material = out_of_sample(seed, settings, device), material_of(settings, seed)
    labels = material.train.labels
    least = torch.finfo(found.probabilities.dtype).tiny
    losses = -found.probabilities.gather(1, labels[:, None])[:, 0].clamp(min=least).log()
    quality = label_quality(labels, found.probabilities)
    errors = [student.errors()["error"] for student in found.students]
    facts = _facts(quality, losses, found.probabilities, material)
    return Outcome(facts | {"error": sum(errors) / len(errors)})


def run(arm: str, seed: int, settings: Settings, device: torch.device) -> Outcome:
    """Train one student with one seed, and evaluate the weights of its training set."""
    if arm == OUT_OF_SAMPLE:
        return _unseen(seed, settings, device)
    trained = train(METHODS[arm], seed, settings, device)
    seen, own = trained.evaluate(), class_probabilities(trained, trained.streams.train)
    facts = _facts(seen.weights, seen.losses, own, trained.material)
    metrics = facts | {"error": trained.errors()["error"]}
    return Outcome(metrics, trained.series, _pictures(trained, seen, seed))


def _prepare(settings: Settings) -> None:
    refused = UsageError(
        f"noise is {settings.noise}, but this recipe looks for wrong labels among right "
        "ones: give a kind and a rate that leaves both, such as flip2:0.4."
    )
    noise = Noise.parse(settings.noise)
    if noise.kind != HUMAN and noise.rate == 0:
        raise refused
    scores()
    check_arms(METHODS, settings)
    wrong = material_of(settings, 0).wrong
    if wrong is None or not 0 < int(wrong.sum()) < len(wrong):
        raise refused


RECIPE = Recipe(
    name="interactions-weights",
    title="Weights from surface features fall with the loss; those from I0+M0 differ by class.",
    paper="l2tdi",
    where="Figure 2",
    arms=(*METHODS, OUT_OF_SAMPLE),
    metrics={
        "weight_loss": "correlation of weight and loss over the training set",
        "eta2": "share of the variance of the weights that lies between the classes of the "
        "labels",
        "auroc": "AUROC: probability that a wrong label has a lower weight than a right one",
        "auroc_loss": "probability that a wrong label has a higher loss than a right one, "
        "with the same student",
        "auroc_confident": "probability that confident learning rates a wrong label lower "
        "than a right one, from the predictions of the same student at the end",
        "error": "test error at the end of training, %",
    },
    settings={
        "smoke": SMOKE,
        "mini": DIGITS,
        "gpu": GPU,
        "paper": Settings(held_out=5000, batch=128, epochs=300, decay_at=(80 / 300, 120 / 300)),
    },
    minutes={"smoke": 0.5, "mini": 3, "gpu": 5, "paper": 120},
    run=run,
    claims=(
        Claim(
            "The weights of a teacher of surface features (M1; T0) are negatively correlated "
            "with the loss.",
            below("weight_loss", "T0", 0.0),
        ),
        Claim(
            "A larger share of the variance of the weights lies between classes for a teacher "
            "of internal state and label (I0 and M0; T1) than for T0.",
            above("eta2", "T1", "T0"),
        ),
        expectation(
            "The weights of the teacher of margin and loss find wrong labels with an AUROC "
            "less than 0.01 below that of the loss alone, or above it.",
            above("auroc", "margin-loss", ("margin-loss", "auroc_loss"), margin=-0.01),
        ),
        expectation(
            "The weights of the teacher of margin and loss find wrong labels with an AUROC "
            "less than 0.01 below that of confident learning, or above it, from the same "
            "student's predictions and from out-of-sample predictions.",
            above(
                "auroc",
                "margin-loss",
                ("margin-loss", "auroc_confident"),
                OUT_OF_SAMPLE,
                margin=-0.01,
            ),
        ),
    ),
    plots=(
        *(Panel(f"Weight against loss, {arm}", arm, "loss") for arm in ("T0", "T1")),
        Panel("Internal states by label, T1", "T1", "classes"),
        Panel("Internal states by weight, T1", "T1", "weights"),
    ),
    prepare=_prepare,
)

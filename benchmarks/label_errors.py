"""How well wrong labels are found: this and cleanlab on the same out-of-fold predictions.

    python -m benchmarks.label_errors [--cells NAME ...] [--seeds 3] [--out FILE]

Cells of cifar10 and sst2 read these folders below TUTELAGE_DATA; those of sst2 take sentence
vectors of ``--encoder``, a folder of transformers. Every cell cuts its examples into a hundred
checked ones, class balanced, and the others, whose given labels are wrong as the cell says.
Five students on four fifths each predict the fifth they never saw, and all of them the checked
examples: first students trained on given labels as they are, then others trained by forward
correction with the transitions that the first ones show, last others distilled from the
posteriors by these, as ``tutelage inspect`` takes them after two rounds of cross-fitting. Each
kind of predictions is measured, and the first two together, as it takes them after one round:
our probability is the mean of those by each, cleanlab gets the mean prediction. Printed are
AUROC of "the label is wrong", and precision where a ranking has found as many wrong labels as
cleanlab's own list (``find_label_issues``) holds.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from tutelage.crossfit import (
    ForwardCorrected,
    LabelErrors,
    error_count_interval,
    estimate_transitions,
    label_errors,
    label_posterior,
    match_error_counts,
    out_of_fold,
    refined_transitions,
    stratified_folds,
)
from tutelage.errors import UsageError, nearest
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.models.heads import mlp
from tutelage.randomness import mixed_seed, seeded
from tutelage.storage.json_files import environment, write_json
from tutelage_cli.data.labels import human_labels
from tutelage_cli.data.noise import Noise, corrupt, noise_matrix
from tutelage_cli.data.reading import Reading
from tutelage_cli.data.sources import load
from tutelage_cli.data.splits import balanced_rows
from tutelage_cli.data.text.text_set import TextSet
from tutelage_cli.train.freeze import frozen_features
from tutelage_cli.train.read_data import read_data
from tutelage_cli.train.settings import TrainSettings
from tutelage_cli.train.students import Data, with_tokens

CELLS = {
    **{f"cifar10n-{who}": ("cifar10", who) for who in ("aggregate", "worst")},
    **{f"cifar10n-random{n}": ("cifar10", f"random{n}") for n in (1, 2, 3)},
    "mnist5k-flip2-20": ("mnist5k", "flip2:0.2"),
    "mnist5k-flip2-40": ("mnist5k", "flip2:0.4"),
    "mnist5k-uniform-40": ("mnist5k", "uniform:0.4"),
    "sst2-flip-20": ("sst2", "flip:0.2"),
    "sst2-flip-30": ("sst2", "flip:0.3"),
}
"""by name, the data and the noise, or who gave the labels"""
ROWS = {"cifar10": 4096, "mnist5k": 2000, "sst2": 4000}
"""examples that are taken, of cifar10 the first ones"""
CHECKED, FOLDS, BATCH, RATE, DECAY = 100, 5, 128, 2e-3, 1e-2
UNTAUGHT, CORRECTED, BOTH, DISTILLED = "given labels", "corrected", "both", "distilled"
METHODS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
"""rankings of cleanlab"""
PART = 5
"""keeps the seeds of these students apart from others"""


class Examples(NamedTuple):
    """N vectors with labels."""

    features: Tensor
    right: Tensor
    classes: int
    given: Callable[[int], Tensor]
    """from a seed to the given labels"""
    width: int | None = None
    """hidden units of their students; None: linear ones"""


class Predicted(NamedTuple):
    """What the students of all folds say of N examples and H checked ones."""

    train: Tensor
    checked: Tensor


def digits(noise: str, rows: int) -> Examples:
    """Pixels of digits."""
    whole = load("mnist5k").train
    images = whole.rows(_draw(len(whole), rows))
    pixels = images.images.flatten(1).float() / 255
    return Examples(pixels, images.labels, 10, _noisy(images, noise), width=64)


def pictures(noise: str, rows: int) -> Examples:
    """Features of CIFAR-10 by a frozen EfficientNet, under labels that people gave."""
    whole = load(str(_folder("cifar10"))).train
    images, given = whole.rows(torch.arange(rows)), human_labels(whole, noise)[:rows]
    settings = TrainSettings(student="efficientnet-lite0", freeze=True)
    (found,) = frozen_features(settings, [images], torch.device("cpu"), print)
    return Examples(found.features, found.labels, 10, lambda _: given)


def sentences(noise: str, rows: int, encoder: Path) -> Examples:
    """Sentence vectors of SST-2."""
    settings = TrainSettings(
        data=str(_folder("glue/sst2")), student=str(encoder), freeze=True, max_length=48
    )
    whole = read_data(settings, "texts", Reading()).train
    assert isinstance(whole, TextSet)
    texts = with_tokens(settings, [whole.rows(_draw(len(whole), rows))])
    (found,) = frozen_features(settings, texts, torch.device("cpu"), print)
    return Examples(found.features, found.labels, 2, _noisy(found, noise))


def _draw(count: int, rows: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:rows]


def _folder(name: str) -> Path:
    return Path(os.environ["TUTELAGE_DATA"]) / name


def _noisy(of: Data, noise: str) -> Callable[[int], Tensor]:
    matrix = noise_matrix(Noise.parse(noise), of.classes)
    return lambda seed: corrupt(of.labels, matrix, seed=seed)


def predicted(
    of: Examples,
    given: Tensor,
    checked: Tensor,
    seed: int,
    objective: Objective,
    epochs: int,
    targets: Tensor | None = None,
) -> Predicted:
    """Train the students of all folds.

    Args:
        of: All examples.
        given: Their given labels.
        checked: True for those that are checked.
        seed: Of folds, weights and batches.
        objective: What they descend.
        epochs: How long.
        targets: What they train on, of the examples that are not checked; None: given labels.

    Returns:
        What they predict: of the checked examples the mean of all students.
    """
    rows, labels = (~checked).nonzero()[:, 0], given[~checked]
    targets = labels if targets is None else targets
    mean, std = of.features[rows].mean(0), of.features[rows].std(0) + 1e-6
    inputs, of_checked = ((of.features[x] - mean) / std for x in (rows, checked))
    wide, classes, said = inputs.shape[1], of.classes, []

    def fit(train: Tensor, predict: Tensor, fold: int) -> Tensor:
        with seeded(mixed_seed(PART, seed, fold), torch.device("cpu")):
            narrow = of.width is None
            student = nn.Linear(wide, classes) if narrow else mlp(wide, classes, width=of.width)
            train_student(student, inputs[train], targets[train], objective, epochs)
        with torch.no_grad():
            said.append(student.eval()(of_checked).softmax(1))
            return student(inputs[predict]).softmax(1)

    folds = stratified_folds(labels, FOLDS, seed=mixed_seed(PART, seed))
    found = out_of_fold(fit, folds)
    return Predicted(found, torch.stack(said).mean(0))


def train_student(
    student: nn.Module, inputs: Tensor, labels: Tensor, objective: Objective, epochs: int
) -> None:
    """Train a student on all examples, in place."""
    optimizer = torch.optim.AdamW(student.parameters(), RATE, weight_decay=DECAY)
    steps = epochs * -(-len(inputs) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(BATCH):
            loss = objective(student(inputs[rows]), labels[rows]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def measure(of: Examples, checked: int, seed: int, epochs: int = 8) -> list[dict[str, Any]]:
    """EvaluateOn rankings on one seed of a cell.

    Args:
        of: The examples.
        checked: How many are checked.
        seed: Of everything that is drawn.
        epochs: Of each student.

    Returns:
        A row for either kind of predictions, and for both together.
    """
    given = of.given(seed)
    chosen, _ = balanced_rows(of.right, checked, of.classes, seed=seed)
    known = torch.zeros(len(given), dtype=torch.bool)
    known[chosen] = True
    right, labels = of.right[known], given[~known]
    wrong = (labels != of.right[~known]).numpy()
    first = predicted(of, given, known, seed, cross_entropy, epochs)
    rough = estimate_transitions(first.checked, right)
    loss = ForwardCorrected(refined_transitions(first.train, rough, labels))
    second = predicted(of, given, known, seed, loss, epochs)
    believed = label_posterior(
        second.train, refined_transitions(second.train, rough, labels), labels
    )
    third = predicted(of, given, known, seed, cross_entropy, epochs, believed)
    each = [
        label_errors(said.train, labels, said.checked, right) for said in (first, second, third)
    ]
    draws = torch.cat([found.draws for found in each[:2]])
    both = each[0]._replace(probabilities=draws.mean(0), draws=draws)
    last = match_error_counts(each[2], both._replace(draws=draws[::2]))
    mean = (first.train + second.train) / 2
    rows = [
        {"seed": seed, "predictions": kind, **_judged(said, found, labels, wrong)}
        for kind, said, found in (
            (UNTAUGHT, first.train, each[0]),
            (CORRECTED, second.train, each[1]),
            (BOTH, mean, both),
            (DISTILLED, third.train, last),
        )
    ]
    recall = rows[0]["recall"]
    found = precision_at(last.probabilities.numpy(), wrong, recall)
    rows[-1]["at_recall_of_given"] = {"recall": recall, "precision": found}
    return rows


def _judged(
    said: Tensor, found: LabelErrors, labels: Tensor, wrong: Bool[np.ndarray, "N"]
) -> dict[str, Any]:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    p = said.double().numpy()
    p, given = p / p.sum(1, keepdims=True), labels.numpy()
    listed = find_label_issues(given, p, n_jobs=1)
    recall = float((listed & wrong).sum() / wrong.sum())
    ours = found.probabilities.numpy()
    low, high = error_count_interval(found)
    suspects = torch.from_numpy(ours > 0.5)
    least, most = error_count_interval(found, suspects)
    scores = {
        method: -get_label_quality_scores(given, p, method=method, adjust_pred_probs=False)
        for method in METHODS
    }
    return {
        "n": len(given),
        "wrong": int(wrong.sum()),
        "recall": recall,
        "list_precision": float((listed & wrong).sum() / max(1, listed.sum())),
        "rankings": {
            name: {
                "auroc": float(roc_auc_score(wrong, score)),
                "precision": precision_at(score, wrong, recall),
            }
            for name, score in {"tutelage": ours, **scores}.items()
        },
        "all_between": [low, high],
        "suspects": int(suspects.sum()),
        "suspects_wrong": int(wrong[suspects.numpy()].sum()),
        "suspects_between": [least, most],
    }


def precision_at(
    score: Float[np.ndarray, "N"], wrong: Bool[np.ndarray, "N"], recall: float
) -> float:
    """The precision of the shortest start of a ranking that has this recall.

    Args:
        score: Larger for what is rather wrong.
        wrong: What is.
        recall: In 0..1.

    Returns:
        NaN where nothing is to be found.
    """
    needed = round(recall * wrong.sum())
    if not needed:
        return float("nan")
    hits = wrong[np.argsort(-score, kind="stable")].cumsum()
    return float(needed / (int(np.searchsorted(hits, needed)) + 1))


def main() -> None:
    """Measure cells, print a line for each and write all as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", nargs="+", default=list(CELLS))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--checked", type=int, default=CHECKED)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for cell in asked.cells:
        of = read_cell(cell, asked.rows, asked.encoder)
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            rows = measure(of, asked.checked, seed, asked.epochs)
            results += [{"cell": cell, **row} for row in rows]
            for row in rows:
                told = {
                    k: [round(x, 4) for x in v.values()] for k, v in row["rankings"].items()
                }
                print(cell, seed, row["predictions"], told, flush=True)
        if asked.out is not None:
            write_json(
                asked.out,
                {
                    "environment": environment(),
                    "checked": asked.checked,
                    "epochs": asked.epochs,
                    "results": results,
                },
            )


def read_cell(cell: str, rows: int | None, encoder: Path | None) -> Examples:
    """The examples of a cell."""
    if cell not in CELLS:
        raise UsageError(f"Unknown cell '{cell}'. {nearest(cell, CELLS)}")
    data, noise = CELLS[cell]
    count = ROWS[data] if rows is None else rows
    if data == "mnist5k":
        return digits(noise, count)
    if data == "cifar10":
        return pictures(noise, count)
    if encoder is None:
        raise UsageError(f"{cell} needs --encoder, a folder of transformers.")
    return sentences(noise, count, encoder)


if __name__ == "__main__":
    main()

"""Confident learning: how far students that never saw an image bear out its label.

Northcutt et al. 2021, by the package cleanlab.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from papers.fan2021interactions.reweighting import PLAIN, Trained, train_on
from papers.fan2021interactions.reweighting_settings import Settings, material_of
from tutelage.errors import MissingExtraError
from tutelage.losses.objectives import logits_of
from tutelage.randomness import mixed_seed
from tutelage_cli.data.batches import Batches
from tutelage_cli.train.evaluation import AT_ONCE
from tutelage_cli.train.material import Material

FOLDS = 4
"""parts of the training set, each judged by a student of the others"""


class Unseen(NamedTuple):
    """What students say of training images that they were not trained on."""

    probabilities: Tensor
    """[N, C], on the CPU"""
    students: tuple[Trained, ...]
    """one for each fold"""


def scores() -> Any:
    """The function of cleanlab that rates labels."""
    try:
        from cleanlab.rank import get_label_quality_scores
    except ImportError as error:
        raise MissingExtraError("cleanlab", "papers") from error
    return get_label_quality_scores


def label_quality(labels: Tensor, probabilities: Tensor) -> Tensor:
    """How likely each label is right: its margin, once each class's threshold is taken off.

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
def probabilities(trained: Trained, batches: Batches) -> Tensor:
    """What the student makes of some images, in evaluation mode."""
    student = trained.tutor.student.eval()
    found = [logits_of(student(batch.inputs)) for batch in batches.whole(AT_ONCE)]
    return torch.cat(found).softmax(1).cpu()


def out_of_sample(seed: int, settings: Settings, device: torch.device) -> Unseen:
    """Train an untaught student for each fold, by the schedule of all other arms."""
    material = material_of(settings, seed)
    count = len(material.train)
    draws = torch.Generator().manual_seed(mixed_seed(seed, FOLDS))
    found, students = torch.empty(count, len(material.train.classes)), []
    for rows in torch.randperm(count, generator=draws).chunk(FOLDS):
        kept = torch.ones(count, dtype=torch.bool).index_fill(0, rows, False).nonzero()[:, 0]
        student = train_on(_part(material, kept), PLAIN, seed, settings, device)
        left_out = replace(student.streams.train, images=material.train.rows(rows))
        found[rows] = probabilities(student, left_out)
        students.append(student)
    return Unseen(found, tuple(students))


def _part(material: Material, rows: Tensor) -> Material:
    truth = None if material.truth is None else material.truth[rows]
    return Material(material.train.rows(rows), truth, material.held_out, material.test)

"""Labels are rated by class thresholds, and by students that have not seen the image."""

import torch

from papers.fan2021interactions import weights
from papers.fan2021interactions.noise import SMOKE
from papers.fan2021interactions.reweighting import material_of
from papers.fan2021interactions.weights import FOLDS, label_quality, out_of_sample
from tutelage_cli.data.batches import Batches

CPU = torch.device("cpu")


def test_a_rating_is_the_margin_once_the_thresholds_are_taken_off():
    labels = torch.tensor([0, 0, 1, 1, 2])
    p = torch.tensor([
        [0.8, 0.1, 0.1],
        [0.2, 0.7, 0.1],
        [0.3, 0.5, 0.2],
        [0.3, 0.4, 0.3],
        [0.1, 0.2, 0.7],
    ]).double()
    thresholds = torch.tensor([(0.8 + 0.2) / 2, (0.5 + 0.4) / 2, 0.7]).double()
    q = p - thresholds + thresholds.max()
    q = q / q.sum(1, keepdim=True)
    other = q.scatter(1, labels[:, None], -1.0).max(1).values
    by_hand = (q.gather(1, labels[:, None])[:, 0] - other + 1) / 2
    torch.testing.assert_close(label_quality(labels, p), by_hand)
    assert label_quality(labels, p).argmin() == 1


def test_every_image_is_judged_by_a_student_that_has_not_seen_it():
    unseen, whole = out_of_sample(0, SMOKE, CPU), material_of(SMOKE, 0)
    assert len(unseen.students) == FOLDS
    times = torch.zeros(len(whole.train), dtype=torch.int64)
    for student in unseen.students:
        seen = torch.isin(whole.train.ids, student.material.train.ids)
        times += ~seen
        stream = student.streams.train
        rest = whole.train.rows((~seen).nonzero()[:, 0])
        batches = Batches(rest, SMOKE.batch, 0, stream.collate, CPU)
        said = weights.class_probabilities(student, batches)
        torch.testing.assert_close(unseen.probabilities[~seen], said)
    assert times.tolist() == [1] * len(whole.train)

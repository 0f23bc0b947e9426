"""GLUE's scores against their definitions, and where these divide by zero."""

import pytest
import torch

from papers.yi2021mmel.glue_students import accuracy, matthews, spearman

PREDICTED = torch.tensor([1, 1, 0, 0, 1, 0, 1])
LABELS = torch.tensor([1, 0, 0, 1, 1, 0, 1])
TP, TN, FP, FN = 3, 2, 1, 1


def test_scores_follow_their_definitions() -> None:
    assert accuracy(PREDICTED, LABELS) == pytest.approx(100 * 5 / 7)
    root = ((TP + FP) * (TP + FN) * (TN + FP) * (TN + FN)) ** 0.5
    assert matthews(PREDICTED, LABELS) == pytest.approx(100 * (TP * TN - FP * FN) / root)
    assert spearman(torch.tensor([1.0, 2, 3, 4]), torch.tensor([2.0, 1, 3, 9])) == (
        pytest.approx(80)
    )


@pytest.mark.parametrize("score", [matthews, spearman])
def test_one_answer_for_all_scores_nothing(score) -> None:
    assert score(torch.zeros(4), torch.tensor([0.0, 1, 0, 1])) == 0.0

"""GLUE's scores against their definitions, and where these divide by zero."""

import pytest
import torch

from papers.metrics import GLUE, accuracy, matthews, spearman
from tutelage.errors import UsageError

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


@pytest.mark.parametrize("score", set(GLUE.values()), ids=lambda s: s.__name__)
def test_nothing_to_score_is_refused(score) -> None:
    with pytest.raises(UsageError, match="one for each"):
        score(torch.zeros(0), torch.zeros(0))
    with pytest.raises(UsageError, match="one for each"):
        score(torch.zeros(2), torch.zeros(3))

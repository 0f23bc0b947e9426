"""What weights depend on, in numbers that can be worked out by hand."""

import pytest
import torch

from papers.fan2021interactions.weights import between_classes
from papers.students import correlation


def test_the_share_between_classes_is_that_of_the_variance():
    weights, classes = torch.tensor([0.1, 0.3, 0.7, 0.9]), torch.tensor([0, 0, 2, 2])
    # means 0.2 and 0.8 about 0.5: 4 x 0.09 of 0.16 + 0.04 + 0.04 + 0.16
    assert between_classes(weights, classes) == pytest.approx(0.36 / 0.40)
    assert between_classes(weights, torch.tensor([1, 0, 1, 0])) == pytest.approx(0.04 / 0.40)
    assert between_classes(torch.ones(4), classes) == 0


def test_the_correlation_is_pearsons_and_zero_where_nothing_varies():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert correlation(x, -2 * x + 5) == pytest.approx(-1)
    assert correlation(x, torch.tensor([1.0, 3.0, 2.0])) == pytest.approx(0.5)
    assert correlation(torch.ones(3), x, constant=0.0) == 0

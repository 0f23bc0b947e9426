"""A mean over tasks comes with its 95% interval."""

import statistics

import pytest

from papers.data.few_shot.episodes import mean_and_interval
from tutelage.errors import UsageError


def test_the_interval_is_as_the_papers_give_it():
    figures = [0.4, 0.6, 0.7, 0.3, 0.9]
    result = mean_and_interval(figures)
    assert result.mean == pytest.approx(0.58)
    assert result.half == pytest.approx(1.96 * statistics.stdev(figures) / 5**0.5)
    assert result.tasks == 5


def test_one_task_is_too_few():
    with pytest.raises(UsageError, match="1 tasks give no interval; allowed: 2"):
        mean_and_interval([0.5])

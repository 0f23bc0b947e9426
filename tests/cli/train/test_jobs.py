"""What a job's settings say of its training."""

import pytest

from tutelage_cli.train.job import learning_rate
from tutelage_cli.train.settings import TrainSettings


@pytest.mark.parametrize(
    ("epochs", "rates"),
    [(1, [1.0]), (2, [1.0, 0.01]), (3, [1.0, 1.0, 0.01]), (6, [1.0] * 4 + [0.1, 0.01])],
)
def test_the_first_epoch_has_the_whole_learning_rate(epochs, rates) -> None:
    settings = TrainSettings(epochs=epochs, lr=1.0)
    assert [learning_rate(settings, n) for n in range(epochs)] == pytest.approx(rates)

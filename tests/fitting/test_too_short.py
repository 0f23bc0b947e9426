"""What says that a run was too short: losses that still fall, students of folds at chance."""

import pytest
import torch
from torch import nn

from tests.fitting.test_fit import CHECKED, TEST, TRAINING, blobs, network, run
from tutelage.fitting.result import still_falling, too_short

LONG = [2.6, 1.8, 1.5, 1.4, 1.35, 1.32, 1.30, 1.29, 1.15, 1.1, 1.09, 1.09]
"""training losses of a run that was long enough: later falls are those of the learning rate"""


@pytest.mark.parametrize(
    ("losses", "full", "said"),
    [
        (LONG, 8, ""),
        ([2.6, 1.8, 1.5], 2, "from 2.600 to 1.800 in the last epoch"),
        ([2.6, 1.8], 1, "from 2.600 to 1.800 in the last epoch"),
        ([2.6], 1, ""),
        ([2.6, 0.2, 0.1], 2, ""),  # it has learned all
        ([1.0, 1.2, 1.3], 3, ""),  # it does not learn at all
        ([3 - 0.1 * n for n in range(12)], 10, "from 2.300 to 2.100 in the last 2 epochs"),
        ([1.0 - 0.1001 * (n > 0) - 0.9 * (n > 1) for n in range(5)], 5, ""),
        ([0.70, 0.69, 0.688, 0.684, 0.675, 0.67, 0.667, 0.665], 5, "from 0.684 to 0.675"),
    ],
)
def test_a_loss_still_falls_where_the_last_epochs_make_a_tenth_of_the_gain(
    losses, full, said
) -> None:
    found = still_falling(losses, full)
    assert bool(found) == bool(said)
    assert said in found


def test_a_student_that_memorises_was_not_trained_for_too_short() -> None:
    losses = [1.1, 1.0, 0.9, 0.8, 0.7]
    assert still_falling(losses, 5, [1.0, 0.9, 0.85, 0.9, 0.8])
    assert not still_falling(losses, 5, [1.0, 0.9, 0.85, 0.81, 0.8])
    assert not still_falling(losses, 5, [1.0, 0.9, 0.85, 0.8, 0.9])
    assert not still_falling(losses, 3, [1.0, 0.9, 0.91, 0.8, 0.7])


def test_a_run_of_a_few_epochs_says_that_it_is_too_short_and_a_longer_one_does_not() -> None:
    right, _ = blobs(240, 0)
    short, long = (run(right, None, validation=TEST, epochs=n) for n in (2, 40))
    (line,) = [line for line in short.report().splitlines() if "too short" in line]
    assert line.startswith("caution: perhaps too short: the training loss still fell from ")
    assert line.endswith("; train for more epochs, or with another learning rate")
    assert "too short" not in long.report()


def test_a_cross_fitted_run_says_that_its_folds_are_at_chance() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = TRAINING[0], torch.randint(3, TRAINING[1].shape, generator=generator)
    settings = {"teacher": None, "folds": 3, "epochs": 3}
    found = run(noise, **settings)
    (line,) = [line for line in found.report().splitlines() if "too short" in line]
    assert "plain students of folds predict" in line
    assert "cross-fitted results mean little" in line
    learned = run(blobs(240, 0)[0], CHECKED, student=network(), **settings)
    assert "plain students of folds" not in learned.report()


def test_both_signs_are_said_in_one_note() -> None:
    assert too_short("it fell", "", "folds are at chance") == (
        "perhaps too short: it fell; and folds are at chance; train for more epochs, or with "
        "another learning rate"
    )
    assert too_short("", "") == ""


def test_labels_kept_by_an_earlier_release_have_no_note_on_chance(tmp_path) -> None:
    student = nn.Linear(3, 3)
    first = run(student=student, teacher=None, folds=3, folder=tmp_path)
    file = tmp_path / "cross-fitted.pt"
    content = torch.load(file, weights_only=True)
    assert content["state"].pop("at_chance") == ""
    del content["digest"]
    torch.save(content, file)
    again = run(student=nn.Linear(3, 3), teacher=None, folds=3, folder=tmp_path)
    assert again.report() == first.report()

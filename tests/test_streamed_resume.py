"""Training on a stream that stops in mid-epoch goes on in a new process as if it had not."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from tests.cli.data.streams import WORKERS, Numbered, ids, streamed
from tests.trained import unchecked
from tests.tutoring import same
from tutelage.signals import Reversible
from tutelage.teachers import InternalState
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

STOP = 3
"""batches of the second epoch that are done when it stops"""


def tutor_of(seed: int) -> Tutor:
    torch.manual_seed(seed)
    student = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.2), nn.Linear(6, 3))
    teacher = InternalState(student, classes=3, surface=("margin", "loss"), hidden_layers=1)
    return Tutor(
        student,
        SGD(student.parameters(), lr=0.05, momentum=0.9),
        teacher,
        Adam(teacher.parameters(), lr=0.05),
        signal=Reversible(2),
        teacher_every=2,
        seed=1234,
    )


def train(tutor: Tutor, how: dict[str, Any], epoch: int, start: int, stop: int) -> list[Batch]:
    """Train until a batch of the third epoch, from a batch of ``epoch`` on."""
    stream, held_out = streamed(Numbered(16), **how), streamed(Numbered(6), 6)
    shown = []
    for number in range(epoch, 3):
        for place, batch in enumerate(stream.epoch(number, start), start):
            if (number, place) == (1, stop):
                return shown
            shown.append(batch)
            tutor.step(batch, held_out.draw(tutor.steps) if tutor.wants_held_out else None)
        start = 0
    return shown


def begin(file: Path, how: dict[str, Any]) -> None:
    tutor = tutor_of(0)
    shown = ids(train(tutor, how, 0, 0, STOP))
    torch.save({"tutor": tutor.state_dict(), "shown": shown}, file)


def go_on(file: Path, how: dict[str, Any]) -> None:
    state, tutor = torch.load(file, weights_only=True), tutor_of(1)
    tutor.load_state_dict(state["tutor"])
    shown = state["shown"] + ids(train(tutor, how, 1, STOP, -1))
    torch.save({"tutor": tutor.state_dict(), "shown": shown}, file)


def elsewhere(work: Any, *arguments: Any) -> None:
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("how", WORKERS)
def test_training_on_a_stream_goes_on_in_mid_epoch_in_a_new_process(tmp_path, how):
    with unchecked():
        whole = tutor_of(0)
        shown = ids(train(whole, how, 0, 0, -1))
        elsewhere(begin, tmp_path / "state.pt", how)
        elsewhere(go_on, tmp_path / "state.pt", how)
    found = torch.load(tmp_path / "state.pt", weights_only=True)
    assert found["shown"] == shown
    assert all(sorted(shown[at : at + 16]) == list(range(16)) for at in (0, 16, 32))
    assert same(found["tutor"], whole.state_dict())

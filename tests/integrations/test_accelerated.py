"""Accelerate: the same steps as in a loop of one's own, and what it saves goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.cases import C, close
from tests.disks import full_disk
from tests.integrations.small import (
    BATCHES,
    epochs,
    loader,
    momentum,
    network,
    own_loop,
    teaching,
)
from tutelage.data.loaders import as_batch
from tutelage.errors import UsageError
from tutelage.integrations import Teaching
from tutelage.signals import Lookahead
from tutelage.training.step_strategy import AmpStep
from tutelage.training.tutor import Tutor

pytest.importorskip("accelerate")
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState

from tutelage.integrations.accelerate import CheckpointFile, taught


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Accelerate keeps its settings in the process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def train(accelerator: Accelerator, teach: Teaching, number: int = 2) -> Tutor:
    student = network()
    student, optimizer, batches = accelerator.prepare(student, momentum(student), loader())
    tutor = taught(accelerator, student, optimizer, teach, total_steps=number * BATCHES)
    for _ in range(number):
        for loaded in batches:
            teach.step(tutor, as_batch(loaded))
    return tutor


@pytest.mark.parametrize("micro_batch", [None, 2])
def test_steps_are_those_of_a_loop_of_one_s_own(micro_batch) -> None:
    mine, other = (teaching(micro_batch=micro_batch) for _ in range(2))
    tutor, want = train(Accelerator(cpu=True), mine), own_loop(2, other)
    close(tutor.student.state_dict(), want.student.state_dict(), 1e-6)
    close(tutor.teacher.state_dict(), want.teacher.state_dict(), 1e-6)


def test_half_precision_is_that_of_a_model_that_casts_itself() -> None:
    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.net(inputs).float()

    tutor = train(Accelerator(cpu=True, mixed_precision="bf16"), teaching())
    want = own_loop(2, teaching(), Casting())
    got = {f"net.{name}": p for name, p in tutor.student.state_dict().items()}
    close(got, want.student.state_dict(), 1e-6)
    close(tutor.teacher.state_dict(), want.teacher.state_dict(), 1e-6)


@pytest.mark.parametrize("mode", ["online", "restep"])
def test_a_scaled_loss_changes_no_step_and_an_overflow_leaves_one_out(
    mode, monkeypatch
) -> None:
    def scaler() -> torch.amp.GradScaler:
        return torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=4)

    accelerator = Accelerator(cpu=True)  # which scales on GPUs alone, when asked for fp16
    mine, theirs = scaler(), scaler()
    monkeypatch.setattr(Accelerator, "mixed_precision", "fp16")
    monkeypatch.setattr(accelerator, "native_amp", True)
    monkeypatch.setattr(accelerator, "scaler", mine)
    # of any targets, such as large ones: those of the library have to sum to 1
    objective = nn.CrossEntropyLoss(reduction="none")
    teach, student = teaching(Lookahead(mode=mode), objective=objective), network()
    optimizer: Any = accelerator.prepare_optimizer(momentum(student))
    assert optimizer.scaler is mine
    tutor = taught(accelerator, student, optimizer, teach)
    also, want = teaching(Lookahead(mode=mode), objective=objective), network()
    other = also.tutor(want, momentum(want), step_strategy=AmpStep(theirs, max_norm=0.5))
    for batch, again in zip(epochs(2), epochs(2), strict=True):
        large = 100.0 if tutor.steps in (0, 5) else 1.0
        targets = large * nn.functional.one_hot(batch.targets, C).float()
        teach.step(tutor, batch._replace(targets=targets))
        also.step(other, again._replace(targets=targets))
    close(student.state_dict(), want.state_dict(), 1e-6)
    close(tutor.teacher.state_dict(), other.teacher.state_dict(), 1e-6)
    assert mine.get_scale() == theirs.get_scale()
    assert tutor.skipped_teacher_steps == other.skipped_teacher_steps > 0


def test_what_is_saved_goes_on_bit_for_bit(tmp_path: Path) -> None:
    def begin() -> tuple[Accelerator, Teaching, Tutor]:
        accelerator, teach, student = Accelerator(cpu=True), teaching(), network()
        student, optimizer = accelerator.prepare(student, momentum(student))
        return accelerator, teach, taught(accelerator, student, optimizer, teach)

    accelerator, teach, tutor = begin()
    batches = list(epochs(2))
    for place, batch in enumerate(batches):
        if place == BATCHES:
            accelerator.save_state(str(tmp_path))
        teach.step(tutor, batch)
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator, teach, again = begin()
    accelerator.load_state(str(tmp_path))
    assert again.steps == BATCHES
    for batch in batches[BATCHES:]:
        teach.step(again, batch)
    for ours, theirs in ((again.student, tutor.student), (again.teacher, tutor.teacher)):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)


def saved_twice(root: Path) -> tuple[Accelerator, Tutor]:
    """A tutor with checkpoint_0 after one step and checkpoint_1 after two."""
    accelerator, teach, student = Accelerator(cpu=True), teaching(), network()
    student, optimizer = accelerator.prepare(student, momentum(student))
    tutor = taught(accelerator, student, optimizer, teach)
    for number, batch in zip(range(2), epochs(1), strict=False):
        teach.step(tutor, batch)
        accelerator.save_state(str(root / f"checkpoint_{number}"))
    return accelerator, tutor


def test_a_damaged_checkpoint_is_named_with_the_newest_whole_one(tmp_path: Path) -> None:
    accelerator, tutor = saved_twice(tmp_path)
    file = tmp_path / "checkpoint_1" / "tutelage-0.0.pt"
    file.write_bytes(b"")
    told = rf"{file} is damaged.*go on from that|{file} .*checkpoint_0: go on"
    with pytest.raises(UsageError, match=told):
        accelerator.load_state(str(file.parent))
    file.unlink()
    with pytest.raises(UsageError, match=rf"{file} is missing.*checkpoint_0"):
        accelerator.load_state(str(file.parent))
    accelerator.load_state(str(tmp_path / "checkpoint_0"))
    assert tutor.steps == 1
    pickled = tmp_path / "checkpoint_0" / "custom_checkpoint_0.pkl"
    pickled.write_bytes(b"")
    with pytest.raises(UsageError, match=f"{pickled} is damaged"):
        accelerator.load_state(str(pickled.parent))


def test_a_full_disk_leaves_the_checkpoint_that_there_was(tmp_path: Path) -> None:
    _, tutor = saved_twice(tmp_path)
    file = tmp_path / "checkpoint_1" / "tutelage-0.0.pt"
    before = file.read_bytes()
    with full_disk(100), pytest.raises(OSError, match=f"File too large: '{file}'"):
        CheckpointFile(tutor, file.name).write(None, None, str(file.parent))
    assert file.read_bytes() == before


def test_accumulation_and_what_was_not_prepared_are_refused() -> None:
    student = network()
    with pytest.raises(UsageError, match=r"accelerator.prepare\(student, optimizer\)"):
        taught(Accelerator(cpu=True), student, momentum(student), teaching())
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    student, optimizer = accelerator.prepare(student, momentum(student))
    with pytest.raises(UsageError, match="gradient_accumulation_steps is 2"):
        taught(accelerator, student, optimizer, teaching())

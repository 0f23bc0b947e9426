"""A checkpoint is one of those that were saved, or refused: never half, altered, or code."""

import os
import pickle
import random
import resource
import signal
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tutelage.errors import UsageError
from tutelage.storage.checkpoint import load_checkpoint, name_damaged_file, save_checkpoint
from tutelage_cli.runner.run_folder import sweep

CPU = torch.device("cpu")
LARGE = 250_000


def state_of(number: int) -> dict[str, Any]:
    return {"number": number, "values": torch.full((LARGE,), float(number))}


def read(file: Path) -> dict[str, Any]:
    with name_damaged_file(file, "Delete it."):
        return load_checkpoint(file, CPU)
    raise AssertionError


def save_for_ever(file: Path) -> None:
    number = 1
    while True:
        save_checkpoint(file, state_of(number))
        number += 1


def test_killed_at_any_moment_of_saving_the_file_is_a_whole_state(tmp_path):
    file, draw = tmp_path / "checkpoint" / "state.pt", random.Random(0)
    save_checkpoint(file, state_of(0))
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            save_for_ever(file)
        time.sleep(draw.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        state = read(file)
        assert state["values"].equal(state_of(state["number"])["values"])
        sweep(tmp_path)
        assert [path.name for path in file.parent.iterdir()] == ["state.pt"]


def test_a_full_disk_leaves_the_old_state_and_names_the_file(tmp_path):
    file = tmp_path / "state.pt"
    save_checkpoint(file, state_of(0))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*state\.pt"):
            save_checkpoint(file, state_of(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read(file)["number"] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]


def test_any_changed_bit_of_what_was_saved_is_found(tmp_path):
    file, draw = tmp_path / "state.pt", random.Random(0)
    save_checkpoint(file, {"values": torch.zeros(1000)})
    whole = file.read_bytes()
    with zipfile.ZipFile(file) as parts:
        values = next(part for part in parts.infolist() if part.filename.endswith("data/0"))
    for at in [values.header_offset + 200, *draw.sample(range(len(whole)), 300)]:
        file.write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]
        )
        told, state = "", {}
        try:
            state = read(file)  # what lies between the parts may change
        except UsageError as error:
            told = str(error)
        assert str(file) in told or not state["values"].any()


class Marker:
    """Touches a file if it is unpickled without a guard."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_code_in_a_checkpoint_is_not_run_and_no_advice_to_let_it_is_given(tmp_path):
    file, marker = tmp_path / "state.pt", tmp_path / "marker"
    torch.save({"tutor": Marker(marker)}, file)
    with pytest.raises(UsageError, match=r"state\.pt .* never loaded\. Delete it\.$") as caught:
        read(file)
    file.write_bytes(pickle.dumps(Marker(marker)))
    with pytest.raises(UsageError, match=r"state\.pt is damaged"):
        read(file)
    assert not marker.exists()
    assert "weights_only" not in str(caught.value)


@pytest.mark.parametrize(
    "state", [{"loss": np.float64(1.5)}, {"rng": np.random.default_rng(0)}]
)
def test_what_is_no_plain_value_is_refused(tmp_path, state):
    save_checkpoint(tmp_path / "state.pt", state)
    with pytest.raises(UsageError, match="more than tensors and plain values"):
        read(tmp_path / "state.pt")


def test_only_the_file_itself_is_said_to_be_missing(tmp_path):
    with pytest.raises(UsageError, match=r"state\.pt is damaged .*No such file.* Delete it"):
        read(tmp_path / "state.pt")
    with pytest.raises(FileNotFoundError), name_damaged_file(tmp_path, "Delete it."):
        load_checkpoint(tmp_path / "state.pt", CPU)


def test_running_out_of_memory_is_not_blamed_on_a_file(tmp_path):
    with pytest.raises(torch.OutOfMemoryError), name_damaged_file(tmp_path, "Delete it."):
        raise torch.OutOfMemoryError("too much")

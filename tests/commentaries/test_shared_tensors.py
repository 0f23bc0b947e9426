"""Names that share a tensor lie in the file once, and share it again when they are loaded."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

from tests.trained import unchecked
from tutelage.commentaries import commentary, load_commentary, save_commentary
from tutelage.commentaries.weights import load_tied, packed_weights, unpacked_weights
from tutelage.errors import UsageError
from tutelage.models import build_student
from tutelage.storage import atomic_files as exchange
from tutelage.storage.atomic_files import fresh_folder, replace_folder
from tutelage.teachers import InternalState, LossWeigher


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    """Functions are not type checked, as users run them."""
    with unchecked():
        yield


class Tied(nn.Module):
    """An embedding that is the output layer, too."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(3, 2)
        self.answer = nn.Linear(2, 3, bias=False)
        self.answer.weight = self.words.weight


def written(module: nn.Module, file: Path) -> Path:
    file.write_bytes(packed_weights(module))
    return file


def test_a_tied_module_is_stored_once_and_tied_when_it_is_loaded(tmp_path):
    module = Tied()
    file = written(module, tmp_path / "weights.safetensors")
    with safe_open(file, "pt") as stored:
        assert len(list(stored.keys())) == 1
    with torch.device("meta"):
        made = Tied()
        made.answer.weight = nn.Parameter(torch.empty(3, 2))  # as a fresh one may be
    load_tied(made, unpacked_weights(file))
    assert made.answer.weight is made.words.weight
    assert len(list(made.parameters())) == 1
    assert made.words.weight.requires_grad
    with torch.no_grad():
        made.words.weight[0, 0] = 7
    assert made.answer.weight[0, 0] == 7
    assert torch.equal(made.answer.weight[1:], module.words.weight[1:])


def test_a_teacher_with_tied_layers_is_tied_again(tmp_path):
    student = build_student("cnn", classes=3, channels=1, size=16, seed=0)
    teacher = InternalState(student, classes=3, surface=("loss",), hidden_layers=3, width=5)
    layers = [part for part in teacher.modules() if isinstance(part, nn.Linear)]
    square = [part for part in layers if part.weight.shape == (5, 5)]
    square[1].weight = square[0].weight
    save_commentary(teacher, tmp_path / "it")
    loaded = load_commentary(tmp_path / "it", student)
    again = [p.weight for p in loaded.modules() if isinstance(p, nn.Linear)]
    tied = [weight for weight in again if weight.shape == (5, 5)]
    assert tied[0] is tied[1]
    assert torch.equal(tied[0], square[0].weight)
    save_commentary(loaded, tmp_path / "again")
    files = [(tmp_path / of / "weights.safetensors").read_bytes() for of in ("it", "again")]
    assert files[0] == files[1]


class Views(nn.Module):
    def __init__(self, one: torch.Tensor, other: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("one", one)
        self.register_buffer("other", other)


def test_parts_of_one_storage_are_stored_each_by_itself(tmp_path):
    whole = torch.arange(6.0).view(2, 3)
    file = written(Views(whole[0], whole[1]), tmp_path / "weights.safetensors")
    assert file.stat().st_size < 300
    assert unpacked_weights(file)["other"].tolist() == [3, 4, 5]
    turned = written(Views(whole.t(), torch.ones(1)), tmp_path / "turned.safetensors")
    assert unpacked_weights(turned)["one"].equal(whole.t())


def test_tensors_that_overlap_in_part_are_refused():
    whole = torch.arange(6.0)
    with pytest.raises(UsageError, match=r"one and other .* share a part .*clone"):
        packed_weights(Views(whole[:4], whole[2:]))


@pytest.mark.parametrize(
    "tied", ['{"a": "nowhere"}', '{"a": 3}', '{"one": "other"}', "[1]", "{"]
)
def test_damaged_names_of_shared_tensors_are_refused(tmp_path, tied):
    module = Views(torch.ones(2), torch.ones(3))
    file = written(module, tmp_path / "weights.safetensors")
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": {"tied": tied}}
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    with pytest.raises(ValueError, match=r"tied|Expecting"):
        unpacked_weights(file)


@pytest.mark.parametrize("swaps", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_in_replacing_a_commentary_one_of_both_is_there(
    tmp_path, monkeypatch, swaps, when
):
    save_commentary(LossWeigher(width=4), tmp_path / "it")
    if not swaps:
        monkeypatch.setattr(exchange, "swap_names", lambda *_: False)

    def dying(*folders: Path) -> None:
        if when == "after":
            replace_folder(*folders)
        os._exit(9)

    pid = os.fork()
    if pid == 0:
        commentary.replace_folder = dying
        try:
            save_commentary(LossWeigher(width=5), tmp_path / "it", overwrite=True)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    student = nn.Identity()
    loaded = load_commentary(tmp_path / "it", student)
    assert isinstance(loaded, LossWeigher)
    assert loaded.width == (4 if when == "before" else 5)
    save_commentary(LossWeigher(width=6), tmp_path / "it", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_what_a_killed_swap_in_two_steps_left_is_taken_back(tmp_path):
    (tmp_path / ".it.999999999.old").mkdir()
    (tmp_path / ".it.999999999.old" / "whole").touch()
    (tmp_path / ".it.999999999").mkdir()
    (tmp_path / ".it.notes").mkdir()
    fresh = fresh_folder(tmp_path / "it")
    assert (tmp_path / "it" / "whole").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"it", ".it.notes", fresh.name}

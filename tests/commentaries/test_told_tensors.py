"""What is wrong with the tensors of a commentary is told tensor by tensor."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from tests.trained import one_line, run
from tutelage.commentaries import load_commentary, save_commentary
from tutelage.errors import UsageError
from tutelage.teachers import LossWeigher


@pytest.fixture
def stored(tmp_path):
    """A commentary, and a way to change its tensors."""
    save_commentary(LossWeigher(width=4), tmp_path / "a")

    def change(act):
        file = tmp_path / "a" / "weights.safetensors"
        tensors = load_file(file)
        save_file(act(tensors) or tensors, file)
        return tmp_path / "a"

    return change


def without(tensors):
    tensors.pop("net.0.bias")


def another(tensors):
    tensors["net.9.bias"] = torch.zeros(2)


def wider(tensors):
    tensors["net.0.weight"] = torch.zeros(5, 1)


def whole(tensors):
    tensors["net.0.bias"] = torch.zeros(4, dtype=torch.int64)


def nan(tensors):
    tensors["net.0.bias"][2] = float("nan")


def infinite(tensors):
    tensors["net.0.weight"] = torch.full((4, 1), -float("inf"))


def wrapped(tensors):
    return {f"module.{name}": tensor for name, tensor in tensors.items()}


def compiled(tensors):
    return {f"_orig_mod.{name}": tensor for name, tensor in tensors.items()}


WRONG = {
    without: ["lacks 'net.0.bias'"],
    another: ["holds 'net.9.bias', which the teacher has not"],
    wider: ["'net.0.weight' has shape [5, 1]", "the teacher's [4, 1]"],
    whole: ["'net.0.bias' is of type torch.int64", "torch.float32"],
    nan: ["net.0.bias holds 1 numbers that are not finite, of 4"],
    infinite: ["net.0.weight holds 4 numbers that are not finite"],
    wrapped: ["names begin with 'module.'", "take that off"],
    compiled: ["names begin with '_orig_mod.'"],
}


@pytest.mark.parametrize("act", WRONG, ids=lambda act: act.__name__)
def test_each_fault_of_the_tensors_says_which(stored, act):
    told = r"the stored state is not that of the teacher|the weights are damaged"
    with pytest.raises(UsageError, match=told) as caught:
        load_commentary(stored(act), nn.Linear(2, 2))
    for part in WRONG[act]:
        assert part in str(caught.value)


def test_the_command_line_tells_it_in_one_line(stored):
    folder = stored(nan)
    one_line(run("commentary", "show", folder), "not finite", folder)
    one_line(run("train", "mnist5k", "--commentary", folder), "not finite", folder)


@pytest.mark.parametrize("value", [[float("nan")], [float("inf")], [0.0]])
def test_a_deviation_that_is_none_is_refused_where_it_would_be_used(stored, value):
    folder = stored(lambda _: None)
    card = json.loads((folder / "commentary.json").read_text())
    card["learnt_on"] |= {"mean": [0.5], "std": value}
    (folder / "commentary.json").write_text(json.dumps(card))
    answer = run("commentary", "show", folder, "--data", "mnist5k")
    one_line(answer, "mean [0.5]", "above 0")

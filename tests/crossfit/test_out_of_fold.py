"""Each example is predicted by a student that never saw it; folds that are done stay."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tutelage.crossfit import out_of_fold, stratified_folds
from tutelage.errors import UsageError

LABELS = torch.arange(23) % 3
FOLDS = stratified_folds(LABELS, 4, seed=0)


def remembering(train: Tensor, predict: Tensor, fold: int) -> Tensor:
    """Of class 0: 0 where an example was trained on, otherwise a number of its own."""
    own = (predict + 1 + fold / 10) / 100
    own = own.where(~torch.isin(predict, train), 0.0)
    return torch.stack([own, 1 - own], 1)


def test_each_example_has_the_prediction_of_the_student_that_left_it_out():
    found = out_of_fold(remembering, FOLDS)
    torch.testing.assert_close(found[:, 0], (torch.arange(23) + 1 + FOLDS / 10) / 100)


def test_a_nearest_neighbour_student_is_not_asked_about_what_it_learned_by_heart():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=generator)
    noise = torch.randint(0, 2, (60,), generator=generator)  # nothing to learn

    def fit(train: Tensor, predict: Tensor, fold: int) -> Tensor:  # noqa: ARG001 - the interface
        nearest = torch.cdist(x[predict], x[train]).argmin(1)
        return torch.nn.functional.one_hot(noise[train][nearest], 2).float()

    p = out_of_fold(fit, stratified_folds(noise, 5, seed=0))
    assert 0.3 < float((p.argmax(1) == noise).float().mean()) < 0.7


def test_processes_give_the_same():
    pytest.importorskip("joblib")
    assert torch.equal(out_of_fold(remembering, FOLDS, jobs=2), out_of_fold(remembering, FOLDS))


class Counting:
    """A fit that counts its calls, and fails at one fold where told to."""

    def __init__(self, fails: int = -1) -> None:
        self.called: list[int] = []
        self.fails = fails

    def __call__(self, train: Tensor, predict: Tensor, fold: int) -> Tensor:
        if fold == self.fails:
            raise KeyboardInterrupt
        self.called.append(fold)
        return remembering(train, predict, fold)


def test_a_run_that_was_ended_goes_on_with_the_folds_that_are_missing(tmp_path):
    first, second = Counting(fails=2), Counting()
    with pytest.raises(KeyboardInterrupt):
        out_of_fold(first, FOLDS, cache=tmp_path / "a", key="k")
    found = out_of_fold(second, FOLDS, cache=tmp_path / "a", key="k")
    assert (first.called, second.called) == ([0, 1], [2, 3])
    assert torch.equal(found, out_of_fold(remembering, FOLDS))
    third = Counting()
    assert torch.equal(out_of_fold(third, FOLDS, cache=tmp_path / "a", key="k"), found)
    assert third.called == []


OTHER = {
    "another key": (FOLDS, LABELS, "other"),
    "other labels": (FOLDS, LABELS.flip(0), "k"),
    "labels of another type": (FOLDS, LABELS.int(), "k"),
    "no labels": (FOLDS, None, "k"),
    "other folds": (stratified_folds(LABELS, 4, seed=1), LABELS, "k"),
}


@pytest.mark.parametrize("name", OTHER)
def test_a_file_of_something_else_is_never_read(tmp_path, name):
    out_of_fold(Counting(), FOLDS, labels=LABELS, cache=tmp_path, key="k")
    folds, labels, key = OTHER[name]
    again = Counting()
    out_of_fold(again, folds, labels=labels, cache=tmp_path, key=key)
    assert again.called == [0, 1, 2, 3]


@pytest.mark.parametrize("content", [b"", b"nothing that safetensors reads", None])
def test_a_damaged_file_is_trained_again_and_replaced(tmp_path, content):
    wanted = out_of_fold(Counting(), FOLDS, cache=tmp_path, key="k")
    file = next(tmp_path.glob("*-1.safetensors"))
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    again = Counting()
    assert torch.equal(out_of_fold(again, FOLDS, cache=tmp_path, key="k"), wanted)
    assert again.called == [1]
    assert file.read_bytes() == whole


KILLED = """
import os, signal, sys
import torch
from tests.crossfit.test_out_of_fold import FOLDS, remembering
from tutelage.crossfit import out_of_fold

def fit(train, predict, fold):
    if fold == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return remembering(train, predict, fold)

out_of_fold(fit, FOLDS, cache=sys.argv[1], key="k")
"""


def test_a_killed_process_leaves_whole_files_alone(tmp_path):
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    again = Counting()
    out_of_fold(again, FOLDS, cache=tmp_path, key="k")
    assert again.called == [2, 3]


def giving(found: object):
    """A fit that gives the same whatever it is asked."""
    return lambda train, predict, fold: found  # noqa: ARG005 - the interface


ROW = [0.5, 0.5]
REFUSED = {
    "too few rows": (giving(torch.tensor([ROW])), r"float32 of shape \(1, 2\) for fold 0"),
    "no tensor": (giving([ROW]), "fit gives a list for fold 0"),
    "logits": (
        giving(torch.tensor([ROW, [3.0, -1.0]])),
        "row 1 of the probabilities of fold 0",
    ),
    "not finite": (giving(torch.tensor([[float("nan"), 1.0], ROW])), "row 0 of the prob"),
    "other classes": (
        lambda train, predict, fold: torch.full((2, 2 + fold), 1 / (2 + fold)),  # noqa: ARG005
        "the folds differ: torch.float32 with 2 classes, torch.float32 with 3",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_prediction_of_a_fold_is_refused(name):
    fit, message = REFUSED[name]
    with pytest.raises(UsageError, match=message):
        out_of_fold(fit, torch.tensor([0, 1, 0, 1]))


FAULTS = {
    "one fold": (torch.zeros(4).long(), {}, r"the folds have \[4\] examples"),
    "an empty fold": (torch.tensor([0, 2, 2]), {}, r"the folds have \[1, 0, 2\]"),
    "a negative fold": (torch.tensor([0, -1]), {}, "a fold is -1"),
    "no example": (torch.zeros(0).long(), {}, "whole numbers of shape"),
    "no job": (FOLDS, {"jobs": 0}, "jobs is 0; allowed: 1"),
    "a cache without a key": (FOLDS, {"cache": "x"}, "a cache needs a key"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_folds_and_settings_that_are_none_are_refused(name):
    folds, options, message = FAULTS[name]
    with pytest.raises(UsageError, match=message):
        out_of_fold(remembering, folds, **options)


def test_a_cache_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "f").write_text("x")
    with pytest.raises(UsageError, match=r"the cache .* cannot be made"):
        out_of_fold(remembering, FOLDS, cache=tmp_path / "f", key="k")

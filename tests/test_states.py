"""A state that is not a module's says which tensor is missing, odd or of another shape."""

import pytest
import torch
from torch import nn
from torch.optim import SGD

from tutelage.commentaries import commentary, save_commentary
from tutelage.commentaries.commentary import load_commentary
from tutelage.errors import UsageError
from tutelage.integrations import Teaching
from tutelage.storage.state_dicts import load_module
from tutelage.teachers import LossWeigher, Plain
from tutelage.training.tutor import Tutor


def tutor() -> Tutor:
    student = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    return Tutor(student, SGD(student.parameters(), lr=0.1), Plain())


def prefixed(state: dict) -> dict:
    return {f"module.{name}": tensor for name, tensor in state.items()}


WRONG = {
    "missing": (lambda s: {k: v for k, v in s.items() if k != "1.bias"}, "lacks '1.bias'"),
    "unknown": (lambda s: s | {"2.bias": torch.zeros(1)}, "holds '2.bias', which the student"),
    "shape": (lambda s: s | {"1.bias": torch.zeros(9)}, r"'1.bias' has shape \[9\].*\[2\]"),
    "no tensor": (lambda s: s | {"1.bias": None}, "'1.bias' is no tensor but a NoneType"),
    "many": (lambda _: {}, r"lacks '0.weight', '0.bias', '1.weight' and 1 more"),
    "no state": (lambda _: 3, "is a int"),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_does_not_fit_is_said_in_one_line(how):
    change, told = WRONG[how]
    of = tutor()
    state = of.state_dict()
    state["student"] = change({k: v.clone() for k, v in state["student"].items()})
    with pytest.raises(ValueError, match=told) as caught:
        of.load_state_dict(state)
    assert "\n" not in str(caught.value)


def test_the_state_of_a_wrapped_student_is_loaded():
    one, other = tutor(), tutor()
    state = one.state_dict()
    other.load_state_dict({**state, "student": prefixed(state["student"])})
    for a, b in zip(one.student.parameters(), other.student.parameters(), strict=True):
        assert torch.equal(a, b)


def test_names_that_have_a_prefix_are_told():
    module = nn.Linear(2, 3)
    with pytest.raises(ValueError, match=r"names begin with 'module\.'.*take that off"):
        load_module(module, prefixed(module.state_dict()), "student")


def test_names_that_lack_a_prefix_are_told():
    module = nn.ModuleDict({"module": nn.Linear(2, 3)})
    with pytest.raises(ValueError, match=r"names lack 'module\.'"):
        load_module(module, module["module"].state_dict(), "student")


def test_a_state_that_fits_is_loaded():
    one, other = tutor(), tutor()
    other.load_state_dict(one.state_dict())
    for a, b in zip(one.student.parameters(), other.student.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_teacher_of_a_checkpoint_is_another_one():
    one, other = (LossWeigher(width=n) for n in (4, 8))
    with pytest.raises(ValueError, match=r"of the teacher: '.*' has shape"):
        Teaching(one).load_state_dict(Teaching(other).state_dict())


@pytest.mark.parametrize("how", ["missing", "unknown", "shape"])
def test_a_commentary_says_which_tensor_does_not_fit(tmp_path, monkeypatch, how):
    save_commentary(LossWeigher(), tmp_path / "it")
    real = commentary.unpacked_weights

    def changed(file):
        tensors = real(file)
        name = next(iter(tensors))
        if how == "missing":
            return {k: v for k, v in tensors.items() if k != name}
        if how == "unknown":
            return tensors | {"more": torch.zeros(1)}
        return tensors | {name: torch.zeros(9, 9, 9)}

    told = {"missing": "it lacks '", "unknown": "it holds 'more'", "shape": r"\[9, 9, 9\]"}
    monkeypatch.setattr(commentary, "unpacked_weights", changed)
    with pytest.raises(UsageError, match=rf"{tmp_path}/it .*{told[how]}"):
        load_commentary(tmp_path / "it", nn.Linear(2, 2))

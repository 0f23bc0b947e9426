"""A commentary is used on the classes that it was learned on, whatever their number."""

import pytest
import torch
from torch import nn

from tutelage.commentaries import Provenance, load_commentary, save_commentary
from tutelage.errors import UsageError
from tutelage.teachers import (
    Blending,
    InternalState,
    KeepOrDrop,
    KeepProbability,
    LossWeigher,
    MentorNetDD,
)

CLASSES = ("cat", "dog", "emu")
STUDENT = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))


def state(*, label: bool) -> InternalState:
    torch.manual_seed(0)
    teacher = InternalState(STUDENT, classes=3, label=label, surface=("loss",))
    for p in teacher.parameters():
        nn.init.normal_(p)
    return teacher


BY_CLASS = {
    "blending": lambda: Blending(3),
    "mentornet": lambda: MentorNetDD(3),
    "keep": lambda: KeepOrDrop(KeepProbability(3)),
    "label": lambda: state(label=True),
}


def stored(folder, teacher, classes=CLASSES):
    save_commentary(teacher, folder, Provenance(classes=classes))
    return folder


@pytest.mark.parametrize("kind", BY_CLASS)
def test_a_class_that_it_does_not_know_is_named(tmp_path, kind):
    folder = stored(tmp_path / "données [v1]", BY_CLASS[kind]())
    load_commentary(folder, STUDENT, classes=CLASSES)
    with pytest.raises(
        UsageError, match="does not know the class zebra; it was learned on cat"
    ):
        load_commentary(folder, STUDENT, classes=("cat", "dog", "zebra"))
    with pytest.raises(UsageError, match=r"in another order \(dog, cat, emu\)"):
        load_commentary(folder, STUDENT, classes=("dog", "cat", "emu"))


def test_a_class_name_of_two_lines_leaves_the_message_one(tmp_path):
    folder = stored(tmp_path / "a", Blending(3), classes=("cat", "dog", "e\nmu"))
    for classes in (("cat", "dog", "ze\nbra"), ("dog", "cat", "e\nmu")):
        with pytest.raises(UsageError, match=r"learned on cat, dog, e\\nmu") as raised:
            load_commentary(folder, STUDENT, classes=classes)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("make", [LossWeigher, lambda: state(label=False)])
def test_what_treats_all_classes_alike_may_be_used_on_others(tmp_path, make):
    load_commentary(stored(tmp_path / "a", make()), STUDENT, classes=("x", "y", "z"))


def test_one_without_names_is_judged_by_their_number(tmp_path):
    folder = stored(tmp_path / "a", Blending(3), classes=())
    load_commentary(folder, STUDENT, classes=("x", "y", "z"))
    with pytest.raises(UsageError, match="made for 3 classes, but the data has 2"):
        load_commentary(folder, STUDENT, classes=("x", "y"))


def test_what_it_knows_of_other_classes_can_be_zeroed(tmp_path):
    folder = stored(tmp_path / "a", state(label=True))
    with pytest.raises(UsageError, match="--label-embedding zero"):
        load_commentary(folder, STUDENT, classes=("x", "y", "z"))
    zeroed = load_commentary(folder, STUDENT, classes=("x", "y", "z"), zero_label=True)
    assert isinstance(zeroed, InternalState)
    where = zeroed.columns()
    assert not zeroed.state_dict()["net.0.weight"][:, where["label"]].any()
    kept = load_commentary(folder, STUDENT, classes=CLASSES, zero_label=True)
    assert kept.state_dict()["net.0.weight"][:, where["label"]].any()

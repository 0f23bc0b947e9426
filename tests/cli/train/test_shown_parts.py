"""What is shown of a commentary that is made of others, or of which nothing is drawn."""

import re
from pathlib import Path

import pytest

from tests.trained import run
from tutelage.commentaries import Provenance, save_commentary
from tutelage.models import MaskUNet, TwoBlockCNN, build_student
from tutelage.teachers import (
    AttentionMask,
    Blending,
    CombinedTeacher,
    Curriculum,
    InternalState,
    KeepOrDrop,
    LossWeigher,
    Mixup,
    PermutationControl,
    RandomBlending,
    Shuffled,
)


def _internal_state() -> InternalState:
    student = build_student("cnn", classes=3, channels=1, size=16, seed=0)
    return InternalState(student, classes=3, tap="pool")


CASES = {
    "together": (
        lambda: CombinedTeacher(Blending(3), LossWeigher()),
        ("How much of another image each class is shown", "How much an example counts"),
        "3 classes",
    ),
    "together on images": (
        lambda: CombinedTeacher(
            AttentionMask(MaskUNet(1, width=8, levels=1), sigma=4.0),
            Curriculum(TwoBlockCNN(2, 1, 16)),
        ),
        ("Masks", "Which examples count, and when"),
        "1 channels, 2 channels (one of them the iteration), images of 16x16 pixels",
    ),
    "kept or dropped": (
        lambda: KeepOrDrop(_internal_state()),
        ("Inputs of the weight", "chances here: of an example to be kept"),
        "3 classes",
    ),
    "permuted masks": (
        lambda: PermutationControl(AttentionMask(MaskUNet(1, width=8, levels=1), sigma=4.0)),
        ("Masks", "goes to other images"),
        "1 channels",
    ),
    "shuffled": (
        lambda: Shuffled(Blending(3), seed=0),
        ("How much of another image each class is shown",),
        "3 classes",
    ),
    "random": (
        lambda: RandomBlending(3, seed=0),
        ("How much of another image each class is shown",),
        "3 classes",
    ),
    "nothing drawn": (
        lambda: CombinedTeacher(Mixup(3, alpha=1.0), LossWeigher()),
        ("There is no chart of the teacher Mixup", "How much an example counts"),
        "3 classes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_part_is_shown_on_a_page_where_no_id_comes_twice(pets, tmp_path, name):
    make, parts, expected = CASES[name]
    folder = tmp_path / "it"
    save_commentary(make(), folder, Provenance(classes=("cat", "dog", "emu")))
    answer = run("commentary", "show", folder, "--data", pets)
    assert answer.code == 0, answer
    assert f"expects of data: {expected}" in answer.out
    page = Path(f"{folder}.html").read_text(encoding="utf-8")
    for part in parts:
        assert part in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_the_tap_of_a_part_is_told(tmp_path):
    save_commentary(KeepOrDrop(_internal_state()), tmp_path / "it")
    answer = run("commentary", "show", tmp_path / "it")
    assert "expects of a student: a module 'pool' of" in answer.out

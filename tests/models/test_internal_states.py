"""The internal states I0 to I3 are where the paper looks, and their widths are what comes."""

import pytest
import torch
from torch import nn

from tutelage.errors import UsageError
from tutelage.functional.submodule_outputs import record_outputs
from tutelage.models import build_student, internal_state

SIZES = {"I0": 1, "I1": 8 * 8, "I2": 16 * 16, "I3": 32 * 32}


@pytest.mark.parametrize(("name", "channels"), [("resnet8", 16), ("wrn-10-1", 16)])
def test_taps_are_the_stages_at_8_16_and_32_pixels(name, channels):
    student = build_student(name, classes=5, channels=3, size=32, seed=0)
    stages = {"I0": 4, "I1": 4, "I2": 2, "I3": 1}
    for which, pixels in SIZES.items():
        tap = internal_state(student, which, (3, 32, 32))
        assert tap.width == stages[which] * channels * pixels
        with torch.no_grad(), record_outputs(student, (tap.name,)) as features:
            student(torch.zeros(2, 3, 32, 32))
        assert features[tap.name].flatten(1).shape == (2, tap.width)
        if which == "I0":
            fc = student.get_submodule("fc")
            assert isinstance(fc, nn.Linear)
            assert fc.in_features == tap.width


def test_looking_leaves_the_student_as_it_is():
    student = build_student("resnet8", classes=5, channels=1, size=8, seed=0)
    before = {k: v.clone() for k, v in student.state_dict().items()}
    student.get_submodule("stage1").eval()
    internal_state(student, "I2", (1, 8, 8))
    assert all(torch.equal(before[k], v) for k, v in student.state_dict().items())
    assert student.training
    assert not student.get_submodule("stage1").training


def test_a_student_without_stages_has_i0_alone():
    student = build_student("cnn", classes=5, channels=1, size=28, seed=0)
    assert internal_state(student, "I0", (1, 28, 28)).width == 64
    with pytest.raises(UsageError, match=r"no stage3, which I1 is: take I0"):
        internal_state(student, "I1", (1, 28, 28))
    with pytest.raises(UsageError, match="Unknown internal state 'I4'"):
        internal_state(nn.Linear(1, 1), "I4", (1, 2, 2))

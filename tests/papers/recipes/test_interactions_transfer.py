"""A frozen teacher: unchanged by whom it teaches, blind to other classes, refused if unfit."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from papers.fan2021interactions import transfer
from papers.fan2021interactions.reweighting import PLAIN, Inputs, make_student, train
from tutelage.errors import UsageError
from tutelage.teachers import InternalState
from tutelage_cli.train.evaluation import Evaluation

CPU = torch.device("cpu")
SMOKE = replace(
    transfer.RECIPE.settings["smoke"],
    data="mnist5k",
    other_data="mnist5k",
    other_student="cnn",
    augment="none",
)


def teacher_of(inputs: Inputs) -> tuple[nn.Module, InternalState]:
    student = make_student("cnn", inputs, 0)
    teacher = transfer.SOURCE.build(student, inputs)
    assert isinstance(teacher, InternalState)
    torch.manual_seed(0)
    nn.init.normal_(next(teacher.parameters()))
    return student, teacher


def test_the_teacher_has_learned_and_teaching_another_student_leaves_it_as_it_is():
    settings = replace(SMOKE, batch=20, every=2, teacher_lr=0.02)
    teacher = transfer.learned(3, settings, CPU)
    before = {k: v.clone() for k, v in teacher.state_dict().items()}
    assert any(v.any() for v in before.values())
    tutor = train(transfer.frozen(teacher), 3, settings, CPU).tutor
    assert tutor.teacher is teacher
    assert tutor.teacher_updater is None
    assert all(torch.equal(v, before[k]) for k, v in teacher.state_dict().items())


def test_other_classes_are_weighed_by_the_internal_state_alone():
    inputs = Inputs(10, (3, 32, 32))
    _, teacher = teacher_of(inputs)
    hundred = inputs._replace(classes=100)
    student = make_student("cnn", hundred, 1)
    fitted = transfer.frozen(teacher).build(student, hundred)
    assert isinstance(fitted, InternalState)
    where, kept = fitted.columns(), teacher.columns()
    weight = fitted.state_dict()["net.0.weight"]
    assert not weight[:, where["label"]].any()
    old = teacher.state_dict()["net.0.weight"]
    torch.testing.assert_close(weight[:, where["tap"]], old[:, kept["tap"]])


def test_a_student_of_another_width_is_refused_with_the_way_out():
    inputs = Inputs(10, (1, 28, 28))
    _, teacher = teacher_of(inputs)
    wide = make_student("wrn-10-2", inputs, 0)
    with pytest.raises(
        UsageError,
        match=r"64 features, but WideResNet gives 128 of examples of shape \(1, 28, 28\)",
    ):
        transfer.frozen(teacher).build(wide, inputs)


@pytest.mark.usefixtures("real_data")
def test_it_is_refused_before_any_job():
    with pytest.raises(UsageError, match="give other_student and other_data with as many"):
        transfer.prepare(replace(SMOKE, other_student="wrn-10-2"))
    transfer.prepare(SMOKE)


def test_how_many_images_count_is_that_of_equal_weights(monkeypatch):
    trained = train(PLAIN, 0, SMOKE.target("same"), CPU)
    weights = torch.tensor([1.0, 1.0, 0.0, 0.0])
    none = torch.zeros(4)
    for given, share in ((weights, 50.0), (torch.full((4,), 0.3), 100.0), (none, 0.0)):
        monkeypatch.setattr(
            type(trained), "evaluate", lambda _, w=given: Evaluation(none, none, w)
        )
        assert transfer.counted(trained) == pytest.approx(share)

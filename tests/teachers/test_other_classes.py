"""A frozen teacher on other classes: refused with the way out, or blind to classes."""

import pytest
import torch
from torch import nn

from tests.cases import D
from tutelage.errors import UsageError
from tutelage.losses.objectives import cross_entropy
from tutelage.teachers import InternalState, for_other_classes
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared

SURFACE = ("prediction", "margin", "loss")


def student(classes: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, classes)).double()


def learned(hidden_layers: int = 0) -> InternalState:
    made = InternalState(
        student(3), classes=3, tap="1", surface=SURFACE, hidden_layers=hidden_layers
    ).double()
    torch.manual_seed(1)
    for p in made.parameters():
        nn.init.normal_(p)
    return made


def shown(classes: int) -> tuple[PreparedBatch, Observation]:
    torch.manual_seed(2)
    batch = Batch(torch.randn(8, D).double(), torch.arange(8) % classes, torch.arange(8))
    module = student(classes)
    hidden = module[1](module[0](batch.inputs)).detach()
    logits = module[2](hidden).detach()
    losses = cross_entropy(logits, batch.targets)
    return as_prepared(batch), Observation(losses, logits, {"1": hidden}, Progress())


def test_other_classes_than_it_was_made_for_are_refused_with_the_way_out() -> None:
    with pytest.raises(
        UsageError, match=r"made for 3 classes.*the student has 7.*for_other_classes"
    ):
        learned().weigh(*shown(7))


@pytest.mark.parametrize("hidden_layers", [0, 1])
def test_all_but_the_weights_of_classes_is_kept(hidden_layers) -> None:
    before = learned(hidden_layers)
    after = for_other_classes(before, student(7), 7)
    prepared, seen = shown(7)
    first, kept = before.net[0], before.columns()
    assert isinstance(first, nn.Linear)
    bias = 0 if first.bias is None else first.bias
    p = seen.logits.softmax(1)
    one_hot = nn.functional.one_hot(prepared.targets, 7)
    margin = (p * one_hot).sum(1) - (p - 2 * one_hot).amax(1)
    known = {"tap": seen.features["1"], "margin": margin[:, None], "loss": seen.losses[:, None]}
    z = sum(x @ first.weight[:, kept[name]].T for name, x in known.items()) + bias
    z = before.net[1:](z).squeeze(1)
    torch.testing.assert_close(after.weigh(prepared, seen), z.sigmoid())


def test_the_same_number_of_classes_loses_them_too_and_the_first_teacher_stays() -> None:
    before = learned()
    state = {k: v.clone() for k, v in before.state_dict().items()}
    after = for_other_classes(before, student(3), 3)
    where = after.columns()
    weight = after.state_dict()["net.0.weight"]
    assert not weight[:, where["label"]].any()
    assert not weight[:, where["prediction"]].any()
    assert all(torch.equal(before.state_dict()[k], v) for k, v in state.items())


def test_a_teacher_that_knows_no_classes_is_left_as_it_is() -> None:
    before = InternalState(student(3), classes=3, tap="1", label=False).double()
    nn.init.normal_(next(before.parameters()))
    prepared, seen = shown(7)
    after = for_other_classes(before, student(7), 7)
    torch.testing.assert_close(after.weigh(prepared, seen), before.weigh(prepared, seen))

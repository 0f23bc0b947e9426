"""Every student in the catalogue is built by name, reproducibly, and can be tapped."""

import sys

import pytest
import torch
from torch import nn

from tutelage import models
from tutelage.errors import MissingExtraError, UsageError
from tutelage.models.catalogue import STUDENTS, build_student, default_tap
from tutelage.models.torchvision_models import torchvision_model

OURS = [*STUDENTS, "wrn-10-1", "wrn-16-4"]


def build(name, seed=0, channels=3, size=32):
    return build_student(name, classes=4, channels=channels, size=size, seed=seed)


def tapped_and_head_input(student, images):
    """What the tapped module put out, and what the last linear layer took in."""
    seen = {}
    head = [part for part in student.modules() if isinstance(part, nn.Linear)][-1]
    tap = student.get_submodule(default_tap(student))
    tap.register_forward_hook(lambda *call: seen.update(tapped=call[2]))
    head.register_forward_pre_hook(lambda *call: seen.update(taken=call[1][0]))
    logits = student(images)
    return seen["tapped"], seen["taken"], logits


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(("channels", "size"), [(3, 32), (1, 28)])
def test_pool_feeds_fc_and_the_gradient_reaches_every_parameter(name, channels, size):
    student = build(name, channels=channels, size=size)
    assert default_tap(student) == "pool"
    tapped, taken, logits = tapped_and_head_input(student, torch.rand(2, channels, size, size))
    assert tapped is taken
    assert tapped.ndim == 2
    assert tapped.shape[1] == student.get_submodule("fc").in_features
    assert logits.shape == (2, 4)
    logits.square().sum().backward()
    for key, parameter in student.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.count_nonzero() > 0, key


@pytest.mark.parametrize("name", ["cnn", "resnet8", "wrn-10-1"])
def test_same_seed_same_weights_and_another_seed_others(name):
    first, again, other = (
        build(name, 3).state_dict(),
        build(name, 3).state_dict(),
        build(name, 4),
    )
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["fc.weight"], other.state_dict()["fc.weight"])


def test_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    build("cnn", 5)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(UsageError):
        build("wrn-27-1", 5)
    assert torch.equal(torch.get_rng_state(), before)


def test_students_are_built_on_the_cpu_whatever_the_default_device():
    with torch.device("meta"):
        student = build("cnn", 3)
    assert torch.equal(
        student.get_parameter("fc.weight"), build("cnn", 3).get_parameter("fc.weight")
    )


def test_unknown_name_is_answered_with_the_nearest_and_all():
    pytest.importorskip("torchvision")
    with pytest.raises(UsageError) as caught:
        build("resnet-32")
    assert str(caught.value) == (
        "unknown student 'resnet-32'. Did you mean 'resnet32'? Allowed: cnn, cnn4, resnet8,"
        " resnet20, resnet32, resnet44, resnet56, resnet110, resnet18-cifar, resnet34-cifar,"
        " wrn-D-K such as wrn-28-10, or a torchvision classification model such as resnet18."
    )
    with pytest.raises(UsageError, match="Did you mean 'mobilenet_v2'"):
        build("mobilenetv2")
    with pytest.raises(
        UsageError, match=r"unknown student 'wrn-28'\. Did you mean 'wrn-28-10'"
    ):
        build("wrn-28")


def test_without_torchvision_an_unknown_name_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(UsageError, match=r"Did you mean 'resnet20'.*pip install '\.\[train\]'"):
        build("resnet-20")
    with pytest.raises(MissingExtraError, match=r"'\.\[train\]'"):
        torchvision_model("resnet18", classes=2, channels=3)


def test_every_public_name_exists():
    assert all(hasattr(models, name) for name in models.__all__)
    assert models.resnet32(classes=10).fc.out_features == 10


@pytest.mark.parametrize(
    ("name", "tap", "size"),
    [
        ("resnet18", "avgpool", 32),
        ("regnet_y_400mf", "avgpool", 32),
        ("mobilenet_v2", "classifier.0", 32),
        ("efficientnet_b0", "classifier.0", 32),
        ("alexnet", "classifier.5", 64),
        ("googlenet", "dropout", 64),
        ("swin_t", "flatten", 32),
    ],
)
def test_tap_of_torchvision_models_is_the_input_of_their_head(name, tap, size):
    pytest.importorskip("torchvision")
    student = build(name)
    assert default_tap(student) == tap
    tapped, taken, logits = tapped_and_head_input(student, torch.rand(2, 3, size, size))
    assert torch.equal(tapped.flatten(1), taken)
    assert logits.shape == (2, 4)


def test_torchvision_models_take_colour_images_of_known_names_only():
    pytest.importorskip("torchvision")
    with pytest.raises(
        UsageError, match="resnet18 takes images of 3 channels but the data have 1"
    ):
        build("resnet18", channels=1)
    with pytest.raises(
        UsageError, match=r"unknown torchvision model 'resnet19'\. Did you mean"
    ):
        torchvision_model("resnet19", classes=2, channels=3)


def test_tap_is_the_whole_module_before_the_last_linear_layer():
    body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
    head = nn.Sequential(nn.Linear(2, 3))
    assert default_tap(nn.Sequential(body, head)) == "0"
    assert default_tap(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 3))) == "1"


@pytest.mark.parametrize(
    ("student", "text"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3)), "Sequential has no linear layer"),
        (nn.Linear(2, 2), "Linear has no module before its last linear layer"),
        (nn.Sequential(nn.Linear(2, 2)), "Sequential has no module before its last linear"),
    ],
)
def test_student_without_anything_to_tap_is_refused(student, text):
    with pytest.raises(UsageError, match=text):
        default_tap(student)

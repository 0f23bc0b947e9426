"""``MarginLoss``: its formula, and that the application teaches by it."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tutelage.commentaries import load_commentary, read_card, save_commentary
from tutelage.errors import UsageError
from tutelage.teachers import InternalState, MarginLoss
from tutelage.types import Observation, PreparedBatch, Progress
from tutelage_cli.data.features.feature_set import FeatureSet
from tutelage_cli.train.arms import TAUGHT
from tutelage_cli.train.settings import TrainSettings

C = 3


def drawn(teacher: MarginLoss) -> MarginLoss:
    torch.manual_seed(1)
    for p in teacher.parameters():
        nn.init.normal_(p)
    return teacher.double()


def shown() -> tuple[PreparedBatch, Observation]:
    logits = torch.tensor([[2.0, 0.5, -1.0], [0.1, 0.2, 0.3], [-1.0, 4.0, 0.0]]).double()
    targets, rows = torch.tensor([0, 0, 2]), torch.arange(3)
    losses = nn.functional.cross_entropy(logits, targets, reduction="none")
    prepared = PreparedBatch(logits, targets, rows, rows)
    return prepared, Observation(losses, logits, {}, Progress())


@pytest.mark.parametrize("level", ["free", "centred"])
def test_weights_are_those_of_an_mlp_of_margin_and_loss(level) -> None:
    teacher, (prepared, observation) = (
        drawn(MarginLoss(nn.Linear(2, C), C, level=level)),
        shown(),
    )
    first, _, last = teacher.net
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    z = []
    for y, logits in zip(prepared.targets.tolist(), observation.logits, strict=True):
        p = [float(x) for x in logits.exp() / logits.exp().sum()]
        margin = p[y] - max(p[c] for c in range(C) if c != y)
        facts = torch.tensor([margin, -torch.tensor(p[y]).double().log()]).double()
        bias = 0 if last.bias is None else last.bias
        z.append(last.weight @ (first.weight @ facts + first.bias).clamp(min=0) + bias)
    found = torch.cat(z) - (torch.cat(z).mean() if level == "centred" else 0)
    expected = 1 / (1 + (-found).exp())
    torch.testing.assert_close(teacher.weigh(prepared, observation), expected)


def test_every_example_first_counts_the_same() -> None:
    weights = MarginLoss(nn.Linear(2, C), C).double().weigh(*shown())
    assert torch.equal(weights, torch.full((3,), 0.5).double())


def test_the_application_teaches_by_it() -> None:
    labels = torch.arange(C)
    data = FeatureSet(torch.zeros(C, 2), labels, labels, ("a", "b", "c"), "a set")
    made = TAUGHT["margin-loss"].build(nn.Linear(2, C), data, TrainSettings())
    assert type(made) is MarginLoss
    assert (made.level, made.classes, made.width) == ("centred", 3, 32)
    assert [tuple(p.shape) for p in made.parameters()] == [(32, 2), (32,), (1, 32)]


def test_it_is_stored_as_what_it_is_a_setting_of(tmp_path: Path) -> None:
    teacher = drawn(MarginLoss(nn.Linear(2, C), C, level="centred")).float()
    save_commentary(teacher, tmp_path / "kept")
    assert read_card(tmp_path / "kept")["teacher"] == "InternalState"
    loaded = load_commentary(tmp_path / "kept", nn.Linear(2, C))
    assert isinstance(loaded, InternalState)
    assert (loaded.level, loaded.surface) == ("centred", ("margin", "loss"))
    for name, value in teacher.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)


def test_it_is_made_where_the_student_is() -> None:
    teacher = MarginLoss(nn.Linear(2, C, device="meta"), C)
    assert {p.device.type for p in teacher.parameters()} == {"meta"}


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Unknown level 'centered'\. Did you mean 'centred'"):
        MarginLoss(nn.Linear(2, C), C, level="centered")


@pytest.mark.parametrize("level", ["free", "centred"])
def test_it_is_the_internal_state_of_its_settings_from_the_same_seed(level: str) -> None:
    student = nn.Linear(2, C)
    torch.manual_seed(0)
    made = MarginLoss(student, C, level=level)
    torch.manual_seed(0)
    spelled_out = InternalState(
        student,
        classes=C,
        label=False,
        surface=("margin", "loss"),
        hidden_layers=1,
        width=32,
        level=level,
    )
    assert list(made.state_dict()) == list(spelled_out.state_dict())
    for name, value in spelled_out.state_dict().items():
        assert torch.equal(made.state_dict()[name], value)
    for p in made.parameters():
        nn.init.normal_(p)
    spelled_out.load_state_dict(made.state_dict())
    weights = [teacher.double().weigh(*shown()) for teacher in (made, spelled_out)]
    assert torch.equal(*weights)
    assert len(weights[0].unique()) == 3

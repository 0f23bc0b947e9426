"""The deep-interaction teacher computes the paper's formula and starts as no teacher at all."""

import math

import pytest
import torch
from torch import Tensor, nn

from tests.cases import B, C, D, build, stream
from tutelage.errors import UsageError
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy, weighted_loss
from tutelage.teachers import PAPER_SURFACE_FEATURES, SURFACE_FEATURES, InternalState, Plain
from tutelage.teachers.internal_state import margin
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Observation, PreparedBatch, Progress, as_prepared

PROGRESS = Progress(fraction=0.25, mean_loss=1.5, best_accuracy=0.75)


def student() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, C)).double()


def shown(module: nn.Module, *taps: str) -> tuple[PreparedBatch, Observation]:
    """The observation of a student at one batch of random examples."""
    batch = next(stream())
    view = StudentView(module, torch.optim.SGD(module.parameters(), lr=0.1))
    logits, features, _ = view.evaluate(view.state().params, {}, batch.inputs, taps)
    losses = cross_entropy(logits, batch.targets)
    return as_prepared(batch), Observation(losses, logits, features, PROGRESS)


def drawn(teacher: InternalState) -> InternalState:
    torch.manual_seed(1)
    for p in teacher.parameters():
        nn.init.normal_(p)
    return teacher.double()


def softmax_by_hand(row: Tensor) -> list[float]:
    e = [math.exp(float(v)) for v in row]
    return [v / sum(e) for v in e]


def margin_by_hand(row: Tensor, label: int) -> float:
    p = softmax_by_hand(row)
    return p[label] - max(v for c, v in enumerate(p) if c != label)


def columns_by_hand(prepared: PreparedBatch, seen: Observation, row: int) -> list[float]:
    """The paper's I0, M0 and M1 for one example, concatenated in that order."""
    label = int(prepared.targets[row])
    internal = [float(v) for v in seen.features["1"][row]]
    one_hot = [float(c == label) for c in range(C)]
    guess = max(range(C), key=lambda c: float(seen.logits[row, c]))
    predicted = [float(c == guess) for c in range(C)]
    surface = [0.25, 1.5, 0.75, *predicted, margin_by_hand(seen.logits[row], label)]
    return internal + one_hot + surface


def test_the_margin_is_the_lead_of_the_given_label_in_probability() -> None:
    logits = 3 * torch.randn(40, C, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.arange(40) % C
    got = margin(logits, nn.functional.one_hot(labels, C).double())
    want = [[margin_by_hand(row, int(y))] for row, y in zip(logits, labels, strict=True)]
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64))


def test_the_margin_of_a_sequence_is_the_mean_over_its_tokens() -> None:
    torch.manual_seed(2)
    logits = torch.randn(2, 3, C, dtype=torch.float64)
    labels = torch.tensor([[0, 2, -100], [1, 1, 0]])
    teacher = InternalState(
        student(), classes=C, label=False, surface=("margin",), level="free"
    ).double()
    nn.init.constant_(next(teacher.parameters()), 1.0)
    prepared = as_prepared(Batch(torch.zeros(2, 3), labels, torch.arange(2)))
    seen = Observation(torch.zeros(2, dtype=torch.float64), logits, {}, PROGRESS)
    for row, weight in enumerate(teacher.weigh(prepared, seen).tolist()):
        pairs = zip(logits[row], labels[row].tolist(), strict=True)
        by_token = [margin_by_hand(token, y) for token, y in pairs if y >= 0]
        want = 1 / (1 + math.exp(-sum(by_token) / len(by_token)))
        assert weight == pytest.approx(want, abs=1e-12)


def test_a_sequence_has_no_label_to_show() -> None:
    prepared = as_prepared(Batch(torch.zeros(2, 3), torch.zeros(2, 3).long(), torch.arange(2)))
    seen = Observation(torch.zeros(2), torch.zeros(2, 3, C), {}, PROGRESS)
    for label, surface in ((True, ()), (False, ("prediction",))):
        teacher = InternalState(student(), classes=C, label=label, surface=surface)
        with pytest.raises(UsageError, match="sequence has no single label"):
            teacher.weigh(prepared, seen)


def test_the_margin_of_a_sure_student_is_one_or_minus_one() -> None:
    logits = torch.tensor([[100.0, 0, 0], [100.0, 0, 0]])
    assert margin(logits, torch.eye(3)[:2]).squeeze(1).tolist() == [1.0, -1.0]


def test_the_linear_teacher_computes_the_papers_formula() -> None:
    module = student()
    teacher = drawn(
        InternalState(module, classes=C, tap="1", surface=PAPER_SURFACE_FEATURES, level="free")
    )
    prepared, seen = shown(module, "1")
    (layer,) = teacher.net
    assert isinstance(layer, nn.Linear)
    for row, weight in enumerate(teacher.weigh(prepared, seen).tolist()):
        terms = zip(layer.weight[0].tolist(), columns_by_hand(prepared, seen, row), strict=True)
        z = sum(w * x for w, x in terms) + layer.bias.item()
        assert weight == pytest.approx(1 / (1 + math.exp(-z)), rel=1e-12)


@pytest.mark.parametrize("hidden_layers", [1, 2])
def test_a_hidden_layer_is_as_wide_as_the_input_and_ends_in_relu(hidden_layers) -> None:
    module = student()
    teacher = drawn(
        InternalState(
            module,
            classes=C,
            tap="1",
            surface=PAPER_SURFACE_FEATURES,
            hidden_layers=hidden_layers,
            level="free",
        )
    )
    size = 5 + C + 3 + C + 1
    linear = [layer for layer in teacher.net if isinstance(layer, nn.Linear)]
    shapes = [(layer.in_features, layer.out_features) for layer in linear]
    assert shapes == [(size, size)] * hidden_layers + [(size, 1)]
    prepared, seen = shown(module, "1")
    x = torch.tensor([columns_by_hand(prepared, seen, row) for row in range(B)]).double()
    for layer in linear[:-1]:
        x = (x @ layer.weight.T + layer.bias).clamp(min=0)
    want = torch.sigmoid(x @ linear[-1].weight.T + linear[-1].bias)[:, 0]
    torch.testing.assert_close(teacher.weigh(prepared, seen), want)


def test_a_given_width_is_the_width_of_every_hidden_layer() -> None:
    teacher = InternalState(student(), classes=C, hidden_layers=2, width=7)
    linear = [layer for layer in teacher.net if isinstance(layer, nn.Linear)]
    assert [layer.out_features for layer in linear] == [7, 7, 1]


@pytest.mark.parametrize("hidden_layers", [0, 1, 2])
def test_the_start_is_exactly_the_untaught_student(hidden_layers) -> None:
    settings = {"classes": C, "tap": "1", "surface": tuple(SURFACE_FEATURES)}
    module = student()
    teacher = InternalState(module, hidden_layers=hidden_layers, **settings).double()
    prepared, seen = shown(module, "1")
    weights = teacher.weigh(prepared, seen)
    assert torch.equal(weights, torch.full((B,), 0.5, dtype=torch.float64))
    taught = weighted_loss(seen.losses, weights, prepared.group, "mean")
    assert torch.equal(taught, seen.losses.mean())


def test_the_start_trains_the_student_bit_for_bit_as_no_teacher_does() -> None:
    ends = []
    for kind in (InternalState, Plain):
        module = student()
        teacher = kind() if kind is Plain else InternalState(module, classes=C, tap="1")
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        tutor, batches = Tutor(module, optimizer, teacher.double()), stream()
        for _ in range(5):
            tutor.step(next(batches))
        ends.append(module.state_dict())
    assert all(torch.equal(ends[0][k], ends[1][k]) for k in ends[0])


def test_rescaled_weights_sum_to_one_over_the_batch() -> None:
    module = student()
    teacher = drawn(InternalState(module, classes=C, tap="1", surface=("loss",)))
    prepared, seen = shown(module, "1")
    weights = teacher.weigh(prepared, seen)
    assert weights.std() > 0.01
    losses = seen.losses.detach().requires_grad_()
    loss = weighted_loss(losses, weights, prepared.group, teacher.normalise)
    (shares,) = torch.autograd.grad(loss, losses)
    torch.testing.assert_close(shares, weights / weights.sum())
    assert shares.sum().item() == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({}, C),
        ({"tap": "1"}, 5 + C),
        ({"tap": "1", "label": False}, 5),
        ({"label": False, "surface": ("loss",)}, 1),
        ({"surface": ("prediction", "margin")}, C + C + 1),
        ({"tap": "1", "surface": PAPER_SURFACE_FEATURES}, 5 + C + 3 + C + 1),
    ],
)
def test_the_input_holds_what_was_asked_for(settings, size) -> None:
    module = student()
    teacher = InternalState(module, classes=C, **settings).double()
    (layer,) = teacher.net
    assert isinstance(layer, nn.Linear)
    assert layer.in_features == size
    assert teacher.weigh(*shown(module, "1")).shape == (B,)


def test_the_surface_facts_keep_the_order_in_which_they_were_asked_for() -> None:
    module = student()
    prepared, seen = shown(module)
    for surface in (("loss", "progress"), ("progress", "loss")):
        teacher = InternalState(
            module, classes=C, label=False, surface=surface, level="free"
        ).double()
        (layer,) = teacher.net
        assert isinstance(layer, nn.Linear)
        nn.init.zeros_(layer.weight)
        layer.weight.data[0, surface.index("loss")] = 1
        torch.testing.assert_close(teacher.weigh(prepared, seen), seen.losses.sigmoid())


@pytest.mark.parametrize(
    ("surface", "uses"),
    [
        (("progress",), True),
        (("mean_loss",), True),
        (("best_accuracy",), True),
        (("margin", "loss", "prediction"), False),
        ((), False),
    ],
)
def test_only_facts_about_progress_make_it_use_progress(surface, uses) -> None:
    assert InternalState(student(), classes=C, surface=surface).uses_progress is uses


def test_soft_labels_stand_in_for_the_one_hot_label() -> None:
    module = student()
    teacher = drawn(InternalState(module, classes=C, tap="1", surface=("margin", "loss")))
    prepared, seen = shown(module, "1")
    hard = nn.functional.one_hot(prepared.targets, C).double()
    want = teacher.weigh(prepared, seen)
    torch.testing.assert_close(teacher.weigh(prepared._replace(targets=hard), seen), want)
    half = teacher.weigh(prepared._replace(targets=0.9 * hard + 0.1 / C), seen)
    assert half.isfinite().all()
    assert not torch.allclose(half, want)


def test_the_columns_of_soft_labels_are_the_soft_labels() -> None:
    module = student()
    teacher = drawn(InternalState(module, classes=C, level="free"))
    prepared, seen = shown(module)
    soft = torch.rand(B, C, generator=torch.Generator().manual_seed(2)).double()
    (layer,) = teacher.net
    got = teacher.weigh(prepared._replace(targets=soft), seen)
    torch.testing.assert_close(got, layer(soft).sigmoid().squeeze(1))


def test_labels_that_are_not_looked_at_may_be_of_any_kind() -> None:
    module = student()
    teacher = InternalState(module, classes=C, tap="1", label=False).double()
    prepared, seen = shown(module, "1")
    heights = torch.rand(B, dtype=torch.float64)
    assert teacher.weigh(prepared._replace(targets=heights), seen).shape == (B,)


def test_an_unknown_surface_fact_is_refused_with_the_nearest_and_all_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"'margins'. Did you mean 'margin'\? Allowed: progress"
    ):
        InternalState(student(), classes=C, surface=("loss", "margins"))


def test_a_tap_that_the_student_lacks_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError, match=r"no module 'pool' to tap. Allowed: 0, 1, 2"):
        InternalState(student(), classes=C, tap="pool")


def test_a_tap_that_another_student_lacks_is_refused_at_its_first_step() -> None:
    teacher = InternalState(student(), classes=C, tap="1").double()
    other = build("scalar parameter")
    tutor = Tutor(other, torch.optim.SGD(other.parameters(), lr=0.1), teacher)
    with pytest.raises(UsageError, match=r"no module '1' to tap. Allowed: hidden, head"):
        tutor.step(next(stream()))


def test_a_teacher_that_would_see_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="would have no input"):
        InternalState(student(), classes=C, label=False)


class NeverReached(nn.Module):
    """Has a layer that its forward pass leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(D, C)
        self.never = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class Pooling(nn.Module):
    """Pools in its forward pass, so that the layers alone do not tell what a tap gives."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 1)
        self.fc = nn.Linear(4, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.conv(x.reshape(-1, 2, 2, 2)).mean((2, 3)))


def first_step(module: nn.Module, teacher: nn.Module) -> None:
    module, teacher = module.double(), teacher.double()
    Tutor(module, torch.optim.SGD(module.parameters(), lr=0.1), teacher).step(next(stream()))


def test_a_tap_that_the_forward_pass_never_reaches_is_refused_by_name() -> None:
    module = NeverReached()
    with pytest.raises(UsageError, match="never"):
        first_step(module, InternalState(module, classes=C, tap="never"))


def test_a_tap_that_gives_more_than_one_tensor_is_refused_by_name() -> None:
    module = build("recurrent")
    with pytest.raises(UsageError, match="gru"):
        first_step(module, InternalState(module, classes=C, tap="gru", tap_width=5))


def test_a_tap_of_another_width_than_its_teacher_takes_asks_for_the_width() -> None:
    module = Pooling()
    with pytest.raises(UsageError, match=r"conv.*16.*4.*tap_width"):
        first_step(module, InternalState(module, classes=C, tap="conv"))


@pytest.mark.parametrize("attached", [False, True])
def test_only_an_attached_teacher_leaves_a_path_from_weights_into_the_student(
    attached,
) -> None:
    module = student()
    teacher = drawn(
        InternalState(module, classes=C, tap="1", surface=("margin",), attached=attached)
    )
    tutor = Tutor(module, torch.optim.SGD(module.parameters(), lr=0.1), teacher)
    view, batch = tutor.problem.student, next(stream())
    theta = {k: p.requires_grad_() for k, p in view.snapshot().params.items()}
    logits, features, _ = view.evaluate(theta, {}, batch.inputs, ("1",))
    seen = Observation(cross_entropy(logits, batch.targets), logits, features, Progress())
    fixed = {k: p.detach() for k, p in teacher.named_parameters()}
    weights = tutor.problem.weights(fixed, as_prepared(batch), seen, 0)
    assert weights.requires_grad is attached


def test_a_batch_of_one_gets_a_weight() -> None:
    module = student()
    teacher = InternalState(
        module, classes=C, tap="1", surface=tuple(SURFACE_FEATURES)
    ).double()
    batch = next(stream())
    one = Batch(batch.inputs[:1], batch.targets[:1], batch.ids[:1])
    tutor = Tutor(module, torch.optim.SGD(module.parameters(), lr=0.1), teacher, total_steps=1)
    assert tutor.step(one).weights.tolist() == [0.5]

"""Examples without a label count for nothing, and labels that nobody declared are named."""

import math

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from tutelage.errors import UsageError
from tutelage.losses.objectives import expected_error
from tutelage.losses.targets import CrossEntropy, require_classes
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.signals import Lookahead, Unrolled
from tutelage.teachers import (
    Blending,
    DynamicLoss,
    InternalState,
    LossWeigher,
    Mixup,
    OutOfFoldTargets,
    Plain,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

D, C = 5, 3
MARKED = CrossEntropy(ignored=(255, -1))


def student():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(D, 4), nn.Tanh(), nn.Linear(4, C)).double()


def batch(labels, seed=0, first=0):
    inputs = torch.randn(
        len(labels), D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    return Batch(inputs, torch.tensor(labels), torch.arange(first, first + len(labels)), 0)


def only(marked, rows):
    return marked._replace(
        inputs=marked.inputs[rows], targets=marked.targets[rows], ids=marked.ids[rows]
    )


def internal_state(model):
    facts = ("loss", "margin")
    torch.manual_seed(1)
    return InternalState(model, classes=C, tap="0", surface=facts, hidden_layers=1).double()


def test_losses_of_marked_examples_are_zero():
    losses = CrossEntropy(ignored=(255,))(torch.zeros(3, 3), torch.tensor([0, 255, 1]))
    assert losses.tolist() == pytest.approx([math.log(3), 0, math.log(3)])


@pytest.mark.parametrize("make", [lambda _: Plain(), lambda _: LossWeigher(), internal_state])
def test_a_step_with_marked_examples_is_one_without_them(make):
    ends = []
    for given in (batch([0, 255, 1, -1]), only(batch([0, 255, 1, -1]), [0, 2])):
        model = student()
        teacher = make(model).double()
        record = Tutor(model, SGD(model.parameters(), lr=0.5), teacher, objective=MARKED).step(
            given
        )
        ends.append((record, torch.cat([p.detach().flatten() for p in model.parameters()])))
    (marked, one), (plain, other) = ends
    assert marked.weights[[1, 3]].tolist() == [0, 0]
    assert marked.losses[[1, 3]].tolist() == [0, 0]
    assert float(marked.loss) == pytest.approx(float(plain.loss), abs=1e-12)
    assert torch.allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("signal", [Lookahead(), Unrolled(1)])
@pytest.mark.parametrize("metric", [None, expected_error])
def test_a_teacher_step_with_marked_examples_is_one_without_them(signal, metric):
    ends = []
    whole, judge = batch([0, 255, 1, -1]), batch([2, -1, 0], seed=1, first=9)
    for given, held_out in ((whole, judge), (only(whole, [0, 2]), only(judge, [0, 2]))):
        model = student()
        teacher = internal_state(model)
        optimizer = SGD(model.parameters(), lr=0.5)
        rate = SGD(teacher.parameters(), lr=1.0)
        start = [p.detach().clone() for p in teacher.parameters()]
        tutor = Tutor(
            model, optimizer, teacher, rate, signal=signal, objective=MARKED, metric=metric
        )
        tutor.step(given, held_out)
        moved = [p - s for p, s in zip(teacher.parameters(), start, strict=True)]
        ends.append(torch.cat([m.detach().flatten() for m in moved]))
    assert float(ends[0].abs().max()) > 1e-6
    assert torch.allclose(*ends, atol=1e-12)


def test_a_teacher_that_grades_leaves_marked_examples_out():
    model = student()
    torch.manual_seed(1)
    teacher = DynamicLoss(C).double()
    tutor = Tutor(
        model,
        SGD(model.parameters(), lr=0.1),
        teacher,
        Adam(teacher.parameters()),
        signal=Unrolled(1),
        total_steps=3,
        objective=MARKED,
    )
    record = tutor.step(batch([0, 255, 1, -1]), batch([0, 1, 2], seed=1))
    assert record.weights.tolist() == [1, 0, 1, 0]


def test_a_batch_without_a_label_leaves_the_student_alone():
    model = student()
    before = [p.detach().clone() for p in model.parameters()]
    tutor = Tutor(model, SGD(model.parameters(), lr=0.5), Plain(), objective=MARKED)
    assert float(tutor.step(batch([255, 255])).loss) == 0
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_marked_examples_have_no_gradient_to_align():
    given, model = batch([0, 255, 1]), student()
    direction = {name: torch.ones_like(p) for name, p in model.named_parameters()}
    dots = gradient_dots(model, given, direction, objective=MARKED)
    assert dots[1] == 0
    assert (dots[[0, 2]] != 0).all()


def test_soft_labels_are_all_labels():
    soft = torch.tensor([[0.5, 0.5, 0.0]])
    assert float(MARKED(torch.zeros(1, 3), soft)) == pytest.approx(math.log(3))


@pytest.mark.parametrize("label", [255, -1, -100])
def test_a_mark_that_nobody_declared_is_named_with_its_row(label):
    model = student()
    tutor = Tutor(model, SGD(model.parameters(), lr=0.1), Plain())
    with pytest.raises(
        UsageError, match=rf"row 1 of the batch has label {label}; allowed: 0\.\.2.*declare it"
    ):
        tutor.step(batch([0, label, 1]))


def test_labels_are_checked_before_they_go_to_a_device():
    require_classes(torch.tensor([0, 255, 2]), 3, ignored=(255,))
    with pytest.raises(UsageError, match="row 2 of the batch has label -1"):
        require_classes(torch.tensor([0, 255, -1]), 3, ignored=(255,))


@pytest.mark.parametrize(
    ("teacher", "owner"),
    [
        (lambda: Blending(C), "blending"),
        (lambda: Mixup(classes=C, alpha=1.0), "blending"),
        (
            lambda: OutOfFoldTargets(
                torch.arange(4), torch.full((4, C), 1 / C), torch.tensor([0, 1, 2, 0])
            ),
            "OutOfFoldTargets",
        ),
    ],
)
@pytest.mark.parametrize("mark", [-100, -1])
def test_a_teacher_that_reads_all_labels_says_that_an_example_has_none(teacher, owner, mark):
    model, marked = student(), CrossEntropy(ignored=(mark,))
    tutor = Tutor(model, SGD(model.parameters(), lr=0.1), teacher().double(), objective=marked)
    with pytest.raises(
        UsageError,
        match=rf"row 2 of the batch has label {mark}, which is no class: {owner} reads the",
    ):
        tutor.step(batch([0, 1, mark, 2]))

"""Losses are one number a row, and what does not fit is refused in one line that names it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.errors import UsageError
from tutelage.losses.objectives import binary_cross_entropy, cross_entropy, squared_error
from tutelage.losses.targets import require_distributions
from tutelage.per_example import gradient_dots as gradient_dots
from tutelage.signals import Lookahead, Unrolled
from tutelage.teachers import (
    Blending,
    GivenWeights,
    KeepProbability,
    LossWeigher,
    MentorNetDD,
    Mixup,
    Plain,
    SplitSampler,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

D, C = 4, 3
CLASSES = torch.tensor([0, 1, 2, 0])
NUMBERS = torch.tensor([0.5, -1.0, 2.0, 0.0])


def batch(targets: Tensor = CLASSES, **parts: Any) -> Batch:
    inputs = torch.randn(len(targets), D, generator=torch.Generator().manual_seed(0))
    return Batch(inputs, targets, torch.arange(len(targets)))._replace(**parts)


def step(
    taken: Batch,
    *,
    teacher: nn.Module | None = None,
    width: int = C,
    held_out: Batch | None = None,
    **settings: Any,
) -> Any:
    torch.manual_seed(0)
    student = nn.Linear(D, width)
    teacher = Plain() if teacher is None else teacher
    learns = {"signal": Unrolled(1)} if held_out is not None else {}
    rule = SGD(teacher.parameters(), lr=0.1) if learns else None
    optimizer = SGD(student.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, rule, total_steps=9, **{**learns, **settings})
    return tutor.step(taken, held_out)


ODD: dict[str, tuple[Callable[..., Any], Tensor, int, str]] = {
    "row by row": (lambda o, y: (o - y) ** 2, NUMBERS, 1, r"shape \(4, 4\)"),
    "one row": (lambda o, y: (o - y) ** 2, NUMBERS[:1], 1, r"shape \(1, 1\)"),
    "a column": (lambda o, y: (o - y[:, None]) ** 2, NUMBERS, 1, r"shape \(4, 1\)"),
    "a mean": (nn.CrossEntropyLoss(), CLASSES, C, r"shape \(\)"),
    "classes": (nn.BCEWithLogitsLoss(reduction="none"), torch.rand(4, C), C, r"\(4, 3\)"),
    "whole numbers": (lambda o, y: (o.argmax(1) != y).long(), CLASSES, C, "int64"),
    "truths": (lambda o, y: o.argmax(1) != y, CLASSES, C, "bool"),
    "a list": (lambda o, y: [1.0] * len(y), CLASSES, C, "a list"),  # noqa: ARG005
    "nothing": (lambda o, y: None, CLASSES, C, "None"),  # noqa: ARG005
}


@pytest.mark.parametrize("name", ODD)
def test_losses_that_are_not_one_number_a_row_are_refused_with_both_shapes(name) -> None:
    objective, targets, width, came = ODD[name]
    told = rf"{came}.*outputs of shape \({len(targets)}, {width}\) and targets of shape"
    with pytest.raises(UsageError, match=told):
        step(batch(targets), objective=objective, width=width)


@pytest.mark.parametrize("name", ODD)
def test_so_are_those_of_a_metric_and_of_an_alignment(name) -> None:
    objective, targets, width, came = ODD[name]
    fits = cross_entropy if width == C else squared_error
    taken = batch(CLASSES[: len(targets)] if width == C else targets)
    if targets.shape == taken.targets.shape:
        with pytest.raises(UsageError, match=came):
            step(
                taken,
                held_out=taken,
                teacher=LossWeigher(width=2),
                objective=fits,
                metric=objective,
                width=width,
            )
    student = nn.Linear(D, width)
    towards = {k: torch.ones_like(p) for k, p in student.named_parameters()}
    with pytest.raises(UsageError, match=came):
        gradient_dots(student, batch(targets), towards, objective=objective)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "few ids": ({"ids": torch.arange(3)}, "4 rows of inputs, 4 of targets and 3 of ids"),
    "few targets": ({"targets": CLASSES[:3]}, "4 rows of inputs, 3 of targets and 4 of ids"),
    "many inputs": ({"inputs": torch.zeros(5, D)}, "5 rows of inputs, 4 of targets"),
    "fractions": ({"ids": torch.arange(4.0)}, "ids are float32.*whole numbers"),
    "truths": ({"ids": torch.ones(4, dtype=torch.bool)}, "ids are bool"),
    "a column of ids": ({"ids": torch.arange(4)[:, None]}, r"ids are int64 of shape \(4, 1\)"),
    "a list": ({"ids": [0, 1, 2, 3]}, "ids is a list"),
    "no targets": ({"targets": None}, "targets is None"),
    "one number": ({"targets": torch.tensor(1)}, r"targets is of shape \(\)"),
    "no row": (
        {"inputs": torch.zeros(0, D), "targets": CLASSES[:0], "ids": CLASSES[:0]},
        "has no row",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_batch_whose_parts_do_not_fit_is_refused_by_name(name) -> None:
    parts, told = FAULTS[name]
    with pytest.raises(UsageError, match=rf"^batch.*{told}"):
        step(batch()._replace(**parts))
    with pytest.raises(UsageError, match=rf"^held_out.*{told}"):
        step(batch(), teacher=LossWeigher(width=2), held_out=batch()._replace(**parts))


@pytest.mark.parametrize("kind", [torch.int32, torch.int16, torch.uint8], ids=str)
def test_whole_numbers_of_any_type_are_classes_and_ids(kind) -> None:
    taken, weights = batch(), GivenWeights(torch.arange(4), torch.rand(4))
    wanted = step(taken, teacher=weights)
    strided = torch.stack([CLASSES, CLASSES], 1)[:, 0]
    for odd in (
        taken._replace(targets=CLASSES.to(kind), ids=taken.ids.to(kind)),
        taken._replace(targets=strided, inputs=taken.inputs.t().contiguous().t()),
    ):
        found = step(odd, teacher=weights)
        assert torch.equal(found.loss, wanted.loss)
        assert found.ids.dtype == torch.int64


@pytest.mark.parametrize("targets", [CLASSES.float(), CLASSES[:, None], torch.rand(4, 2)])
def test_targets_that_are_no_classes_are_refused_with_what_came(targets) -> None:
    with pytest.raises(UsageError, match=r"cross_entropy takes logits.*the targets are"):
        step(batch(targets))


def test_an_error_of_numbers_is_never_broadcast() -> None:
    with pytest.raises(
        UsageError, match=r"\(2, 3\), the targets are float32 of shape \(3, 2\)"
    ):
        squared_error(torch.zeros(2, 3), torch.zeros(3, 2))
    with pytest.raises(UsageError, match="a target for each log-odds"):
        binary_cross_entropy(torch.zeros(3, 1), torch.zeros(3))
    several = squared_error(torch.zeros(2, 3), torch.tensor([[1.0, 2, 3], [0, 0, 3]]))
    assert several.tolist() == pytest.approx([14 / 3, 3.0])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_target_that_is_not_finite_is_named_with_its_row_and_id(value) -> None:
    odd = batch(torch.tensor([0.0, 1, value, 2]), ids=torch.tensor([7, 8, 9, 10]))
    told = r"target of row 2 of the batch \(id 9\) is -?(nan|inf)"
    with pytest.raises(UsageError, match=told):
        step(odd, objective=squared_error, width=1)
    with pytest.raises(UsageError, match=told):
        step(
            batch(NUMBERS),
            teacher=LossWeigher(width=2),
            held_out=odd,
            objective=squared_error,
            width=1,
        )
    soft = F.one_hot(CLASSES, C).float()
    soft[1, 1] = value
    with pytest.raises(UsageError, match="target of row 1"):
        step(batch(soft))


def test_an_objective_that_knows_what_to_do_with_missing_targets_may() -> None:
    def masked(outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.where(targets.isnan(), 0, (outputs[:, 0] - targets.nan_to_num()) ** 2)

    gone = torch.tensor([0.0, float("nan"), 1, 2])
    assert step(batch(gone), objective=masked, width=1).loss.isfinite()


def test_several_labels_of_an_example_are_not_taken_for_probabilities() -> None:
    several = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    with pytest.raises(UsageError, match=r"row 0 of the batch sum to 2.*binary_cross_entropy"):
        step(batch(several))
    assert step(batch(several), objective=binary_cross_entropy).loss.isfinite()
    with pytest.raises(UsageError, match="sum to 1"):
        require_distributions(torch.tensor([[1.5, -0.5]]), cross_entropy)


@pytest.mark.parametrize("ids", [[-1, -1, 5, 6], [0, 1, 5, 9]])
def test_examples_of_no_part_are_named(ids) -> None:
    taken = batch(ids=torch.tensor(ids))
    with pytest.raises(UsageError, match=r"SplitSampler has no part for the ids (-1|9) of"):
        step(taken, teacher=SplitSampler([4, 4]))


@pytest.mark.parametrize("ids", [[0, 1, 2, 3], [-1, 0, 1, 2], [0, 1, 2, 10**12]])
def test_examples_without_a_weight_train_no_student(ids) -> None:
    teacher = GivenWeights(torch.arange(3), torch.ones(3))
    odd = next(i for i in ids if i not in range(3))
    with pytest.raises(
        UsageError, match=f"no weight is given for the examples with ids {odd}:"
    ):
        step(batch(ids=torch.tensor(ids)), teacher=teacher)


@pytest.mark.parametrize(
    ("ids", "weights", "told"),
    [
        ([0, 1, 1], [1.0, 1, 1], "ids 1 come twice"),
        ([0.0, 1, 2], [1.0, 1, 1], r"ids are torch\.float32"),
        ([-1, 1, 2], [1.0, 1, 1], "ids -1 are negative"),
        ([0, 1, 2], [[1.0], [1], [1]], "one for each id"),
        ([0, 1, 2], [1e308, 1, 1], r"a weight is 1e\+308.*that of id 0"),
    ],
)
def test_weights_that_cannot_be_stored_are_refused(ids, weights, told) -> None:
    with pytest.raises(UsageError, match=told):
        GivenWeights(torch.tensor(ids), torch.tensor(weights, dtype=torch.float64))


@pytest.mark.parametrize(
    "teacher",
    [
        lambda: Mixup(C, alpha=1.0),
        lambda: Blending(C),
        lambda: KeepProbability(C),
        lambda: MentorNetDD(C, burn_in=0.0),
    ],
)
def test_a_class_that_a_teacher_was_not_made_for_is_named(teacher) -> None:
    odd = batch(torch.tensor([0, 1, 5, 0]))
    with pytest.raises(UsageError, match=r"row 2 of the batch has label 5.*classes 0\.\.2"):
        step(odd, teacher=teacher(), width=6)


def test_inputs_that_are_whole_numbers_are_not_blended() -> None:
    images = batch(inputs=torch.zeros(4, D, dtype=torch.uint8))
    with pytest.raises(UsageError, match="inputs are uint8"):
        step(images, teacher=Mixup(C, alpha=1.0))


def test_a_label_beyond_the_classes_is_named_among_ignored_ones_and_held_out() -> None:
    odd = batch(torch.tensor([0, 1, 7, -100]))
    told = "row 2 of the batch has label 7"
    own = nn.CrossEntropyLoss(reduction="none")
    with pytest.raises(UsageError, match=told):
        step(odd, objective=own)
    with pytest.raises(UsageError, match=told):
        step(batch(), teacher=LossWeigher(width=2), held_out=odd, objective=own)
    with pytest.raises(UsageError, match=told):
        step(
            batch(),
            teacher=LossWeigher(width=2),
            held_out=odd,
            objective=own,
            signal=Lookahead(),
        )

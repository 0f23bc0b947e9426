"""Rows without a label count in no mean: a step with them is the step without them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD

from tutelage.errors import UsageError
from tutelage.integrations.columns import TrainerLoss
from tutelage.losses.objectives import (
    Auxiliary,
    TokenCrossEntropy,
    expected_error,
    weighted_loss,
)
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import CrossEntropy
from tutelage.signals import GradientAlignment, Lookahead, NextStepLoss, Signal, Unrolled
from tutelage.teachers import (
    CombinedTeacher,
    Copies,
    DynamicLoss,
    InternalState,
    KeepOrDrop,
    KeepProbability,
    LossWeigher,
    MentorNetPD,
    Plain,
    SelfPaced,
    UniformCopies,
    WorstCase,
)
from tutelage.training.accuracy_reward import held_out_accuracy
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

D, C, T = 5, 3, 4
LABELS = [0, -100, 1, 2, -100, 1]
KEPT = [0, 2, 3, 5]
OBJECTIVES: dict[str, Any] = {
    "ours": CrossEntropy(ignored=(-100,)),
    "torch's module": nn.CrossEntropyLoss(reduction="none"),
    "torch's function": partial(F.cross_entropy, reduction="none"),
    "the Trainer's": TrainerLoss(),
    "smoothed": TrainerLoss(smoothing=0.1),
    "around another": Auxiliary(CrossEntropy(ignored=(-100,))),
}


def batch(labels: list[int], seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(len(labels), D, dtype=torch.float64, generator=generator)
    return Batch(inputs, torch.tensor(labels), torch.arange(len(labels)))


def only(rows: list[int], of: Batch) -> Batch:
    return of._replace(inputs=of.inputs[rows], targets=of.targets[rows], ids=of.ids[rows])


class Pair(nn.Linear):
    """Logits and a second output."""

    def forward(self, input: Tensor) -> Any:
        return super().forward(input), input


def same(inputs: Tensor, /, *, seed: int) -> Tensor:  # noqa: ARG001 - the interface
    return inputs * 1.5


def copies(weigher: nn.Module) -> nn.Module:
    return CombinedTeacher(Copies(2, same, include_original=True), weigher)


TEACHERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "plain": lambda _: Plain(),
    "by loss": lambda _: LossWeigher(width=4),
    "not rescaled": lambda _: LossWeigher(width=4, normalise=None),
    "self-paced": lambda _: SelfPaced(),
    "by percentile": lambda _: MentorNetPD(burn_in=0.0, width=2.0),
    "half of a batch": lambda _: MentorNetPD(burn_in=1.0),
    "centred": lambda s: InternalState(s, classes=C, surface=("loss",), level="centred"),
    "keep or drop": lambda _: KeepOrDrop(KeepProbability(C)),
    "a loss of its own": lambda _: DynamicLoss(C),
    "copies": lambda _: copies(UniformCopies()),
    "worst copies": lambda _: copies(WorstCase(1.0)),
}


def taught(
    given: Batch,
    teacher: str | Callable[[nn.Module], nn.Module],
    objective: Any,
    signal: Signal | None = None,
    held_out: Batch | None = None,
    **settings: Any,
) -> tuple[Any, Tensor, Tensor]:
    torch.manual_seed(0)
    kind = Pair if isinstance(objective, Auxiliary) else nn.Linear
    student = kind(D, C).double()
    torch.manual_seed(1)
    made = (TEACHERS[teacher] if isinstance(teacher, str) else teacher)(student).double()
    for p in made.parameters():
        nn.init.normal_(p, std=0.4)
    rule = SGD(made.parameters(), lr=1.0) if signal is not None else None
    tutor = Tutor(
        student,
        SGD(student.parameters(), lr=0.5),
        made,
        rule,
        signal=signal,
        objective=objective,
        total_steps=9,
        **settings,
    )
    first = torch.cat(
        [p.detach().flatten().clone() for p in made.parameters()] + [torch.zeros(0)]
    )
    record = tutor.step(given, held_out)
    record = tutor.step(given, held_out)  # what is remembered counts, too
    flat = [
        torch.cat([p.detach().flatten() for p in m.parameters()] + [torch.zeros(0)])
        for m in (student, made)
    ]
    return record, flat[0], flat[1] - first


@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("teacher", ["plain", "by loss", "not rescaled"])
def test_whatever_the_objective_that_ignores_them(objective, teacher, micro_batch) -> None:
    own, marked = OBJECTIVES[objective], batch(LABELS)
    found = taught(marked, teacher, own, micro_batch=micro_batch)
    wanted = taught(only(KEPT, marked), teacher, own)
    assert found[0].weights[[1, 4]].tolist() == [0, 0]
    assert found[0].losses[[1, 4]].tolist() == [0, 0]
    torch.testing.assert_close(found[0].loss, wanted[0].loss)
    torch.testing.assert_close(found[1], wanted[1])


@pytest.mark.parametrize("teacher", TEACHERS)
def test_whatever_the_teacher_and_its_own_means_and_ranks(teacher) -> None:
    own, marked = OBJECTIVES["ours"], batch(LABELS)
    found = taught(marked, teacher, own)
    wanted = taught(only(KEPT, marked), teacher, own)
    torch.testing.assert_close(found[0].loss, wanted[0].loss)
    torch.testing.assert_close(found[1], wanted[1])
    twice = len(found[0].losses) // len(LABELS)
    rows = [row + copy * len(LABELS) for copy in range(twice) for row in KEPT]
    torch.testing.assert_close(found[0].weights[rows], wanted[0].weights)


LEARNED: dict[str, tuple[Any, Signal]] = {
    "by loss": ("by loss", Lookahead()),
    "not rescaled": ("not rescaled", Unrolled(1)),
    "centred": ("centred", Unrolled(1)),
    "a loss of its own": ("a loss of its own", Unrolled(1)),
    "rewarded": ("keep or drop", GradientAlignment(evaluate_on="held-out")),
    "rewarded by loss": (
        "keep or drop",
        NextStepLoss(evaluate_on="held-out", normalise="none"),
    ),
}


@pytest.mark.parametrize("metric", [None, expected_error])
@pytest.mark.parametrize("name", LEARNED)
def test_a_teacher_learns_as_without_them(name, metric) -> None:
    teacher, signal = LEARNED[name]
    own, marked = OBJECTIVES["ours"], batch(LABELS)
    judge = batch([2, -100, 0, 1], seed=1)
    found = taught(marked, teacher, own, signal, judge, metric=metric)
    wanted = taught(
        only(KEPT, marked), teacher, own, signal, only([0, 2, 3], judge), metric=metric
    )
    assert float(wanted[2].abs().max()) > 1e-6
    torch.testing.assert_close(found[2], wanted[2])
    torch.testing.assert_close(found[0].held_out_loss, wanted[0].held_out_loss)


@pytest.mark.parametrize("teacher", TEACHERS)
def test_a_batch_of_nothing_else_moves_nothing(teacher) -> None:
    own, nothing = OBJECTIVES["ours"], batch([-100] * 4)
    record, moved, _ = taught(nothing, teacher, own)
    torch.manual_seed(0)
    start = nn.Linear(D, C).double()
    assert float(record.loss) == 0
    assert torch.equal(moved, torch.cat([p.detach().flatten() for p in start.parameters()]))


def test_a_function_that_does_not_say_so_is_refused_where_it_ignores_a_row() -> None:
    def own(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="none")

    with pytest.raises(
        UsageError, match=r"row 1 of the batch \(id 1\) has the label -100.*counts"
    ):
        taught(batch(LABELS), "plain", own)
    numbers = batch([1, -100, 3])  # a number, not a mark: its loss is not 0
    assert taught(numbers, "plain", lambda o, y: (o[:, 0] - y) ** 2)[0].loss > 100


def test_a_method_of_any_objective_says_which_rows_count() -> None:
    class Own:
        def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return F.cross_entropy(outputs, targets.clamp(min=0), reduction="none")

        def counts(self, targets: Tensor) -> Tensor:
            return targets >= 0

    marked = batch(LABELS)
    found, wanted = (
        taught(marked, "by loss", Own()),
        taught(only(KEPT, marked), "by loss", Own()),
    )
    torch.testing.assert_close(found[1], wanted[1])
    own = Own()
    own.counts = lambda targets: targets[:1] >= 0  # type: ignore[method-assign]
    with pytest.raises(
        UsageError, match=r"counts of the objective Own are bool of shape \(1,\)"
    ):
        counts_of(own, marked.targets)


class Speaker(nn.Module):
    """Tokens to logits of tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(D, T * C)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).reshape(len(x), T, C)


TOKENS = torch.tensor([[0, 1, -100, -100], [-100] * 4, [2, 0, 1, 1], [1, -100, -100, -100]])


def spoken(objective: Any, rows: list[int]) -> tuple[float, Tensor]:
    torch.manual_seed(0)
    student, given = Speaker().double(), batch([0] * 4)._replace(targets=TOKENS)
    tutor = Tutor(student, SGD(student.parameters(), lr=0.5), Plain(), objective=objective)
    record = tutor.step(only(rows, given))
    return float(record.loss), student.net.weight.detach().flatten()


@pytest.mark.parametrize(
    "objective", [TokenCrossEntropy(), TrainerLoss(), TrainerLoss(shifts=True)]
)
def test_sequences_without_a_token_count_in_no_mean(objective) -> None:
    found, wanted = spoken(objective, [0, 1, 2, 3]), spoken(objective, [0, 2, 3])
    assert found[0] == pytest.approx(wanted[0], rel=1e-12)
    torch.testing.assert_close(found[1], wanted[1])


@pytest.mark.parametrize("shifts", [False, True])
def test_the_mean_of_the_trainer_s_loss_is_that_over_all_tokens(shifts) -> None:
    torch.manual_seed(0)
    logits = Speaker().double()(batch([0] * 4).inputs)
    seen, known = (logits[:, :-1], TOKENS[:, 1:]) if shifts else (logits, TOKENS)
    wanted = F.cross_entropy(seen.reshape(-1, C), known.reshape(-1))
    assert spoken(TrainerLoss(shifts=shifts), [0, 1, 2, 3])[0] == pytest.approx(
        float(wanted.detach())
    )


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ("mean", (1 * 2 * 1 + 3 * 1 * 2) / (2 + 3)),
        (None, (1 * 2 * 1 + 3 * 1 * 2) / (1 + 3)),
        ("group", (1 * 1 + 3 * 2) / (1 + 3)),
    ],
)
def test_counts_by_hand(rule, wanted) -> None:
    losses, weights = torch.tensor([1.0, 9.0, 2.0]), torch.tensor([2.0, 5.0, 1.0])
    found = weighted_loss(
        losses, weights, torch.arange(3), rule, counts=torch.tensor([1, 0, 3])
    )
    assert float(found) == pytest.approx(wanted)


def test_an_accuracy_is_over_those_with_a_label() -> None:
    student = nn.Linear(D, C).double()
    own = CrossEntropy(ignored=(-100,))
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), Plain(), objective=own)
    marked = batch(LABELS)
    with torch.no_grad():
        right = student(marked.inputs).argmax(1) == marked.targets
    assert held_out_accuracy(tutor, [marked]) == pytest.approx(
        float(right[KEPT].double().mean())
    )
    soft = marked._replace(targets=F.one_hot(torch.tensor([0, 1, 2, 0, 1, 2]), C).double())
    assert 0 <= held_out_accuracy(tutor, [soft]) <= 1

"""Which paths from the teacher to the held-out loss a hypergradient follows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.cases import OPTIMIZERS, STUDENTS, C, D, Seen, Shifter, build, stream, watched
from tutelage.distributed.groups import SingleProcess
from tutelage.functional.trees import detached
from tutelage.losses.objectives import Objective, cross_entropy
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.signals.facts import detaches, facts_of
from tutelage.signals.products import (
    Alignment,
    DoubleBackward,
    FiniteDifference,
    FirstOrder,
    ForwardOverReverse,
)
from tutelage.teacher import weights_attached
from tutelage.teachers import (
    Blending,
    CombinedTeacher,
    DynamicLoss,
    InternalState,
    KeepProbability,
    LossWeigher,
    MentorNetDD,
    MentorNetPD,
    MetaLabelCorrection,
    PermutationControl,
    WorstCase,
    WorstCaseSoft,
)
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, StudentState, as_prepared


class Copies(nn.Module):
    """Each example with two copies that are moved by what is learned, in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((D,), 0.1))

    def prepare(self, batch: Batch):
        prepared = as_prepared(batch)
        x = batch.inputs
        y, ids, group = (rows.repeat(3) for rows in (batch.targets, batch.ids, prepared.group))
        moved = torch.cat([x, x + self.shift, x - self.shift.exp()])
        return prepared._replace(inputs=moved, targets=y, ids=ids, group=group)


def facts(attached: bool = False) -> nn.Module:
    surface = ("margin", "loss")
    student = build("layer norm")
    return InternalState(
        student,
        classes=C,
        surface=surface,
        hidden_layers=1,
        width=4,
        label=False,
        attached=attached,
    )


PAIRS: dict[str, Callable[[], nn.Module]] = {
    "moved inputs and losses": lambda: CombinedTeacher(Shifter(), LossWeigher(width=4)),
    "moved inputs and margins": lambda: CombinedTeacher(Shifter(), facts()),
    "blended and losses": lambda: CombinedTeacher(Blending(classes=C), LossWeigher(width=4)),
    "copies and the worst of them": lambda: CombinedTeacher(Copies(), WorstCase(0.5)),
    "copies and the worst, softly": lambda: CombinedTeacher(Copies(), WorstCaseSoft(0.5, 1.0)),
}


def started(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(5)
    teacher = make().double()
    with torch.no_grad():
        for p in teacher.parameters():
            p.add_(0.5 * torch.randn_like(p))
    return teacher


def slopes(make: Callable[[], nn.Module], signal: Signal, steps: int) -> tuple[float, float]:
    """The hypergradient along a direction, and the central difference of real training."""

    def trained(teacher: nn.Module, signal: Signal | None) -> tuple[float, nn.Module]:
        student, batches, held_out = build("layer norm"), stream(), next(stream(9))
        optimizer = SGD(student.parameters(), lr=0.3, momentum=0.9)
        learner = SGD(teacher.parameters(), lr=1.0) if signal else None
        tutor = Tutor(
            student,
            optimizer,
            teacher,
            learner,
            signal=signal,
            teacher_every=steps if signal else 1,
            total_steps=steps,
        )
        for _ in range(steps):
            tutor.step(next(batches), held_out if tutor.wants_held_out else None)
        state, teacher_params = (
            tutor.problem.student.state(),
            detached(dict(teacher.named_parameters())),
        )
        return float(
            tutor.problem.held_out_loss(state, teacher_params, held_out).detach()
        ), teacher

    before = dict(started(make).named_parameters())
    _, taught = trained(started(make), signal)
    generator = torch.Generator().manual_seed(1)
    slope, moved = 0.0, (started(make), started(make))
    with torch.no_grad():
        for name, p in taught.named_parameters():
            d = torch.randn(p.shape, generator=generator, dtype=p.dtype)
            slope += float(((before[name] - p) * d).sum())
            for teacher, sign in zip(moved, (1, -1), strict=True):
                teacher.get_parameter(name).add_(sign * 1e-5 * d)
    ends = [trained(teacher, None)[0] for teacher in moved]
    return slope, (ends[0] - ends[1]) / 2e-5


ONE_STEP: dict[str, Signal] = {
    "unrolled": Unrolled(1),
    "replayed": Replayed(1),
    "reversible": Reversible(1),
    "lookahead": Lookahead(),
    "double backward": Lookahead(DoubleBackward()),
    "forward over reverse": Lookahead(ForwardOverReverse()),
    "finite difference": Lookahead(FiniteDifference(size=1e-4)),
}


@pytest.mark.parametrize("signal", ONE_STEP)
def test_what_is_prepared_changes_the_weights_of_the_same_step(signal) -> None:
    slope, want = slopes(PAIRS["moved inputs and losses"], ONE_STEP[signal], 1)
    assert abs(slope - want) <= (1e-4 if "finite" in signal else 1e-6) * abs(want)


@pytest.mark.parametrize("pair", PAIRS)
def test_every_pair_agrees_with_real_training_over_one_step(pair) -> None:
    slope, want = slopes(PAIRS[pair], Unrolled(1), 1)
    assert abs(slope - want) <= 1e-6 * abs(want)


LOOKING: dict[str, Callable[..., nn.Module]] = {
    "losses": lambda attached: LossWeigher(width=4, attached=attached),
    "margins": facts,
    "mentor net": lambda attached: MentorNetDD(C, burn_in=0.0, decay=0.0, attached=attached),
    "moved inputs and losses": lambda attached: CombinedTeacher(
        Shifter(), LossWeigher(width=4), attached=attached
    ),
    "moved inputs and the mentor": lambda attached: CombinedTeacher(
        Shifter(), MentorNetPD(width=2.0, burn_in=0.0, decay=0.0, attached=attached)
    ),
    "copies and the worst of them": lambda attached: CombinedTeacher(
        Copies(), WorstCase(0.5, attached=attached)
    ),
}


@pytest.mark.parametrize("teacher", LOOKING)
def test_attached_teachers_agree_with_real_training_over_several_steps(teacher) -> None:
    slope, want = slopes(lambda: LOOKING[teacher](attached=True), Unrolled(3), 3)
    assert abs(slope - want) <= 1e-6 * abs(want)


def test_what_is_handed_over_as_plain_numbers_is_left_out_by_attached_teachers_too() -> None:
    slope, want = slopes(lambda: KeepProbability(C, attached=True), Unrolled(3), 3)  # mean loss
    assert abs(slope - want) > 1e-4 * abs(want)


SEVERAL: dict[str, Signal] = {
    "unrolled": Unrolled(3),
    "replayed": Replayed(3),
    "reversible": Reversible(3),
}


@pytest.mark.parametrize("signal", SEVERAL)
def test_if_not_attached_later_weights_are_left_out_and_the_estimate_says_so(signal) -> None:
    slope, want = slopes(facts, SEVERAL[signal], 3)
    assert abs(slope - want) > 1e-4 * abs(want)
    for make, said in ((facts, True), (lambda: facts(attached=True), False), (Shifter, False)):
        module = build("layer norm")
        call = watched(module, OPTIMIZERS["momentum"](module), started(make), steps=3)
        assert ("weights_fixed" in SEVERAL[signal](*call).facts) is said


class Centred(nn.Module):
    """Takes off the mean of its hidden units, as given if it is cut."""

    def __init__(self, *, cut: bool = True) -> None:
        super().__init__()
        self.first, self.last, self.cut = nn.Linear(D, 6), nn.Linear(6, C), cut

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).tanh()
        mean = hidden.mean(0)
        return self.last(hidden - (mean.detach() if self.cut else mean))


def focal(outputs: Tensor, targets: Tensor) -> Tensor:
    """Focal loss whose factor has no part in the gradient."""
    losses = cross_entropy(outputs, targets)
    return (1 - losses.detach().neg().exp()).square() * losses


def halved_gradients(hook: str) -> Callable[[], nn.Module]:
    """A student with a hook that halves the gradient of its first layer's output."""

    def make() -> nn.Module:
        student = build("layer norm")
        first = next(m for m in student.modules() if isinstance(m, nn.Linear))
        if hook == "module":
            first.register_full_backward_pre_hook(lambda _, grads: (grads[0] / 2,))
            return student

        def halve(_module: nn.Module, _args: Any, output: Tensor) -> None:
            if output.requires_grad:
                output.register_hook(lambda grad: grad / 2)

        first.register_forward_hook(halve)
        return student

    return make


def copies(*, detach_target: bool = True) -> nn.Module:
    return CombinedTeacher(Copies(), WorstCaseSoft(0.5, 1.0, detach_target=detach_target))


def row_losses_at(tap: str) -> Callable[[nn.Module], nn.Module]:
    return lambda student: MetaLabelCorrection(student, classes=C, tap=tap)


CUTS: dict[str, tuple[Any, Any, Objective]] = {
    "features that row losses read": ("layer norm", row_losses_at("0"), cross_entropy),
    "the student": (Centred, lambda _: Shifter(), cross_entropy),
    "the student, under weights": (Centred, lambda _: LossWeigher(width=4), cross_entropy),
    "targets of copies": ("relu network", lambda _: copies(), cross_entropy),
    "the objective": ("layer norm", lambda _: Shifter(), focal),
    "a module's hook": (halved_gradients("module"), lambda _: Shifter(), cross_entropy),
    "a tensor's hook": (halved_gradients("tensor"), lambda _: Shifter(), cross_entropy),
}
WHOLE: dict[str, tuple[Any, Any, Objective]] = {
    student: (student, lambda _: LossWeigher(width=4), cross_entropy) for student in STUDENTS
} | {
    "row losses": ("relu network", lambda _: DynamicLoss(C), cross_entropy),
    "attached": ("relu network", lambda _: LossWeigher(width=4, attached=True), cross_entropy),
    "copies": ("relu network", lambda _: copies(detach_target=False), cross_entropy),
}


def facts_with(
    student: Any,
    make: Any,
    objective: Objective,
    signal: Signal,
    dtype: torch.dtype,
    metric: Objective | None = None,
) -> Mapping[str, float]:
    torch.manual_seed(0)
    module = (build(student) if isinstance(student, str) else student()).to(dtype)
    teacher, seen = started(lambda: make(module)).to(dtype), Seen(signal.steps)
    tutor = Tutor(
        module,
        SGD(module.parameters(), lr=0.3, momentum=0.9),
        teacher,
        SGD(teacher.parameters(), lr=1.0),
        signal=seen,
        teacher_every=signal.steps,
        objective=objective,
        metric=metric,
        total_steps=9,
    )
    batches = (b._replace(inputs=b.inputs.to(dtype)) for b in stream())
    for _ in range(signal.steps):
        tutor.step(next(batches), next(batches))
    return signal(*seen.calls[0]).facts


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("signal", SEVERAL)
@pytest.mark.parametrize("cut", CUTS)
def test_an_estimate_says_where_a_path_is_detached(cut, signal, dtype) -> None:
    if signal != "reversible" or dtype == torch.float64:
        assert facts_with(*CUTS[cut], SEVERAL[signal], dtype)["detached"] == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", WHOLE)
def test_where_none_is_detached_nothing_is_said(name, dtype) -> None:
    assert "detached" not in facts_with(*WHOLE[name], Unrolled(3), dtype)


def classifier(seed: int, activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(D, 16), activation(), nn.Linear(16, C))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("seed", range(20))
def test_kinks_near_the_student_are_no_detached_paths(seed, dtype) -> None:
    call = lambda: classifier(seed), lambda _: Shifter(), cross_entropy, Unrolled(3)
    assert "detached" not in facts_with(*call, dtype)


def kinked(x: Tensor) -> Tensor:
    return x.sin() + 0.3 * x.relu()


@pytest.mark.parametrize("offset", [0.0, 1e-9, -1e-9, 1e-4, -1e-4, 1e-2, -1e-2])
def test_a_kink_at_or_beside_the_student_is_no_detached_path(offset) -> None:
    theta = {"w": torch.tensor(1.0, dtype=torch.float64, requires_grad=True)}

    def loss(state: StudentState) -> Tensor:
        return kinked(state.params["w"] - 1 + offset)

    def cut(state: StudentState) -> Tensor:
        return loss(state) + 0.1 * state.params["w"].detach()

    assert not detaches(loss, StudentState(theta, {}, {}), theta)
    if abs(offset) > 3e-3:
        assert detaches(cut, StudentState(theta, {}, {}), theta)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_a_trained_student_in_single_precision_has_no_detached_path(activation) -> None:
    module = classifier(0, activation)
    given = next(stream())
    x, y = given.inputs.float(), given.targets
    optimizer = torch.optim.Adam(module.parameters(), lr=0.03)
    for _ in range(600):
        optimizer.zero_grad()
        cross_entropy(module(x), y).mean().backward()
        optimizer.step()
    call = lambda: module, lambda _: Shifter(), cross_entropy, Unrolled(3), torch.float32
    assert "detached" not in facts_with(*call)


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_each_student_of_a_teacher_is_checked(order) -> None:
    teacher = started(Shifter)
    for cut in order:
        module = Centred(cut=cut).double()
        call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=3)
        assert ("detached" in Unrolled(3)(*call).facts) is cut


class Focal:
    """Cannot be hashed, as a dataclass with ``eq`` cannot, nor referenced weakly."""

    __slots__ = ("cut",)
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, *, cut: bool) -> None:
        self.cut = cut

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Focal)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return focal(outputs, targets) if self.cut else cross_entropy(outputs, targets)


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_each_objective_of_a_student_is_checked(order) -> None:
    module = build("layer norm")
    call = watched(module, OPTIMIZERS["momentum"](module), started(Shifter), steps=3)
    for cut in order * 2:
        found = Unrolled(3)(replace(call[0], objective=Focal(cut=cut)), *call[1:]).facts
        assert ("detached" in found) is cut


@pytest.mark.parametrize("signal", [Unrolled(1), Lookahead()], ids=repr)
def test_over_one_step_only_what_the_held_out_loss_detaches_is_left_out(signal) -> None:
    for cut, said in (("features that row losses read", False), ("the student", True)):
        found = facts_with(*CUTS[cut], signal, torch.float64)
        assert found == ({"detached": 1.0} if said else {})


OF_DIFFERENCES: list[tuple[Signal, bool]] = [
    (Lookahead(FiniteDifference(1e-4)), True),
    (Lookahead(Alignment("difference")), True),
    (Lookahead(Alignment("one-sided")), True),
    (Replayed(1, product=FiniteDifference(1e-4)), True),
    (Reversible(1, product=FiniteDifference(1e-4)), True),
    (Replayed(1, product=FirstOrder(FiniteDifference(1e-4))), True),
    (Lookahead(Alignment()), False),
    (Replayed(1, product=FirstOrder()), False),
]


@pytest.mark.parametrize(("signal", "said"), OF_DIFFERENCES, ids=repr)
def test_over_one_step_differences_follow_what_the_training_loss_detaches(signal, said) -> None:
    call = "layer norm", lambda _: LossWeigher(width=4), focal, signal, torch.float64
    assert ("detached" in facts_with(*call, metric=cross_entropy)) is said


class NoProcesses(SingleProcess):
    """Fails where other processes would be waited for."""

    def all_reduce(self, x: Tensor) -> Tensor:
        raise AssertionError(x)


def test_what_is_detached_is_found_without_other_processes() -> None:
    module = build("layer norm")
    call = watched(module, OPTIMIZERS["momentum"](module), started(facts), steps=3)
    problem, teacher_params, window, held_out = call
    assert window.start is not None
    alone = replace(problem, processes=NoProcesses())
    facts_of(alone, teacher_params, window.start, window.steps[0], held_out, several=True)


@pytest.mark.parametrize("teacher", LOOKING)
def test_teachers_that_look_at_the_student_are_attached_by_one_word(teacher) -> None:
    assert weights_attached(LOOKING[teacher](attached=True))
    assert not weights_attached(LOOKING[teacher](attached=False))
    assert weights_attached(PermutationControl(LOOKING[teacher](attached=True)))
    assert weights_attached(CombinedTeacher(Shifter(), LossWeigher(attached=True)))
    assert not weights_attached(
        CombinedTeacher(Shifter(), LossWeigher(attached=True), attached=False)
    )


def test_rows_cannot_be_left_out_of_a_gradient_that_keeps_the_weights_own() -> None:
    with pytest.raises(ValueError, match="drop_below=0"):
        WorstCase(1.0, drop_below=0.1, attached=True)

"""Signals judge one another, and finite differences of real training judge them all."""

import copy

import pytest
import torch
from torch import nn

from tests.cases import (
    NOT_IN_INPUTS,
    OPTIMIZERS,
    REVERSIBLE,
    STUDENTS,
    B,
    C,
    D,
    InputWeigher,
    Shifter,
    build,
    close,
    in_turn,
    stream,
    watched,
)
from tutelage.functional.student import StudentView
from tutelage.signals import Lookahead, Reversible, Unrolled
from tutelage.teachers import PAPER_SURFACE_FEATURES, InternalState, LossWeigher
from tutelage.training.tutor import Tutor


def teacher_for(kind: str, student: nn.Module) -> nn.Module:
    torch.manual_seed(7)
    if kind == "internal state":
        teacher = InternalState(
            student, classes=C, surface=("margin", "loss"), hidden_layers=1, width=4
        )
        nn.init.normal_(teacher.net.get_parameter(f"{len(teacher.net) - 1}.weight"))
        return teacher.double()
    if kind == "attached":
        teacher = InternalState(student, classes=C, surface=("margin",), attached=True)
        nn.init.normal_(teacher.net.get_parameter(f"{len(teacher.net) - 1}.weight"))
        return teacher.double()
    plain = {"inputs": InputWeigher, "loss": LossWeigher, "shift": Shifter}
    return plain[kind]().double()


TEACHERS = ("inputs", "loss", "internal state", "attached", "shift")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("student", STUDENTS)
def test_unrolled_equals_finite_differences_of_real_training(student, optimizer) -> None:
    module, teacher = build(student), InputWeigher().double()
    learner = OPTIMIZERS[optimizer](module)
    problem, teacher_params, window, held_out = watched(
        module, learner, teacher, steps=3, before=2
    )
    got = Unrolled(3)(problem, teacher_params, window, held_out).grad

    def judged(shift: dict) -> float:
        """Train a fresh copy with torch.optim under a moved teacher."""
        copied, moved = build(student), copy.deepcopy(teacher)
        for name, p in moved.named_parameters():
            p.data += shift[name]
        again = OPTIMIZERS[optimizer](copied)
        tutor = Tutor(copied, again, teacher)
        batches = stream()
        for _ in range(2):
            tutor.step(next(batches))
        tutor = Tutor(copied, again, moved)
        tutor.steps = 2
        for _ in range(3):
            tutor.step(next(batches))
        return float(
            problem.held_out_loss(StudentView(copied, again).state(), teacher_params, held_out)
        )

    generator, eps = torch.Generator().manual_seed(1), 1e-6
    for _ in range(2):
        direction = {
            k: torch.randn(p.shape, generator=generator, dtype=p.dtype)
            for k, p in teacher_params.items()
        }
        up = judged({k: eps * d for k, d in direction.items()})
        down = judged({k: -eps * d for k, d in direction.items()})
        want = (up - down) / (2 * eps)
        slope = sum(float((got[k] * d).sum()) for k, d in direction.items())
        # rounding of central differences at 1e-6 is about 2e-10
        assert abs(slope - want) <= 1e-6 * abs(want) + 1e-9


@pytest.mark.parametrize(
    ("student", "kind", "optimizer", "steps"),
    in_turn(STUDENTS, TEACHERS, REVERSIBLE, [1, 2, 5]),
)
def test_reversible_equals_unrolled(student, kind, optimizer, steps) -> None:
    module = build(student)
    teacher = teacher_for(kind, module)
    call = watched(module, OPTIMIZERS[optimizer](module), teacher, steps=steps, before=2)
    if kind == "shift" and student in NOT_IN_INPUTS:
        pytest.skip("token ids have no derivative in the inputs")
    got, want = Reversible(steps)(*call), Unrolled(steps)(*call)
    close(got.grad, want.grad, 1e-9)  # a few roundings amplified by 0.5^-5
    torch.testing.assert_close(got.held_out_loss, want.held_out_loss, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("student", "optimizer", "kind"), in_turn(STUDENTS, OPTIMIZERS, TEACHERS)
)
def test_lookahead_equals_one_unrolled_step(student, optimizer, kind) -> None:
    if kind == "shift" and student in NOT_IN_INPUTS:
        pytest.skip("token ids have no derivative in the inputs")
    module = build(student)
    teacher = teacher_for(kind, module)
    call = watched(module, OPTIMIZERS[optimizer](module), teacher, steps=1, before=3)
    close(Lookahead()(*call).grad, Unrolled(1)(*call).grad, 1e-11)


RATES = {
    "constant": lambda _: 0.1,
    "a tenth from two steps before the end": lambda t: 0.1 if t < 18 else 0.01,
    "linear decay": lambda t: 0.1 * (1 - 0.9 * t / 20),
}


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_reversal_is_exact_under_any_schedule_of_the_learning_rate(steps, rates) -> None:
    module = build("relu network")
    teacher = teacher_for("internal state", module)
    optimizer = OPTIMIZERS["momentum"](module)
    call = watched(
        module, optimizer, teacher, steps=steps, before=20 - steps, rates=RATES[rates]
    )
    close(Reversible(steps)(*call).grad, Unrolled(steps)(*call).grad, 1e-12)


def test_the_learning_rate_index_as_printed_in_the_paper_would_be_wrong() -> None:
    # the printed recursion takes each step's own rate in place of the one before it
    module = build("relu network")
    teacher = teacher_for("inputs", module)
    problem, teacher_params, window, held_out = watched(
        module,
        OPTIMIZERS["momentum"](module),
        teacher,
        steps=5,
        before=15,
        rates=RATES["a tenth from two steps before the end"],
    )
    last = window.steps[-1].settings
    printed = [s._replace(settings=last) for s in window.steps]
    right = Reversible(5)(problem, teacher_params, window, held_out).grad
    wrong_window = type(window)(window.start, printed, window.end)
    wrong = Unrolled(5)(problem, teacher_params, wrong_window, held_out).grad
    error = max(float((wrong[k] - right[k]).abs().max()) for k in right)
    assert error > 0.05 * max(float(g.abs().max()) for g in right.values())


def test_float32_reversal_drifts_as_documented() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(D, 7), nn.Tanh(), nn.Linear(7, C))
    teacher = InputWeigher()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)

    class Single(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, x):
            return self.inner(x.float())

    student = Single()

    class Narrow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = teacher

        def weigh(self, prepared, observation):
            return self.net.weigh(
                prepared._replace(inputs=prepared.inputs.float()), observation
            )

    call = watched(student, optimizer, Narrow(), steps=20)
    close(Reversible(20)(*call).grad, Unrolled(20)(*call).grad, 1e-3)
    call = watched(student, optimizer, Narrow(), steps=120)
    with pytest.raises(ValueError, match="amplify rounding"):
        Reversible(120)(*call)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS.keys() - set(REVERSIBLE)))
def test_reversible_refuses_what_cannot_be_undone(optimizer) -> None:
    module = build("linear")
    call = watched(module, OPTIMIZERS[optimizer](module), InputWeigher().double(), steps=2)
    with pytest.raises(TypeError, match="Use Unrolled"):
        Reversible(2)(*call)


@pytest.mark.parametrize("signal", [Unrolled(2), Reversible(2), Lookahead()])
def test_a_signal_changes_nothing_of_the_student(signal) -> None:
    module = build("batch norm")
    teacher = teacher_for("internal state", module)
    call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=signal.steps)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    random = torch.get_rng_state()
    signal(*call)
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert not module[2]._forward_hooks  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("signal", [Unrolled(2), Reversible(2), Lookahead()])
def test_a_batch_without_weight_gives_a_finite_hypergradient(signal) -> None:
    module = build("relu network")

    class Nothing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(D, 1, dtype=torch.float64)

        def weigh(self, prepared, observation):  # noqa: ARG002 - the interface
            return (self.net(prepared.inputs).squeeze(1) - 1e3).relu()

    with pytest.warns(UserWarning, match="carried no weight"):
        call = watched(module, OPTIMIZERS["momentum"](module), Nothing(), steps=signal.steps)
    grad = signal(*call).grad
    assert all(g.isfinite().all() for g in grad.values())


def test_every_paper_feature_reaches_the_teacher() -> None:
    module = nn.Sequential(nn.Linear(D, 5), nn.Tanh(), nn.Linear(5, C)).double()
    teacher = InternalState(module, classes=C, tap="1", surface=PAPER_SURFACE_FEATURES).double()
    call = watched(module, OPTIMIZERS["momentum"](module), teacher, steps=2, before=4)
    weight = Unrolled(2)(*call).grad["net.0.weight"].squeeze(0)
    names = [f"tap {i}" for i in range(5)] + [f"label {i}" for i in range(C)]
    names += ["progress", "mean_loss", "best_accuracy"]
    # facts equal for the whole batch cannot change weights that are rescaled to mean 1
    assert (weight[: 5 + C].abs() > 0).any()
    assert weight[5 + C : 5 + C + 3].abs().max() < 1e-12 * weight.abs().max()
    assert weight.shape == (5 + C + 3 + C + 1,)
    assert len(call[3].ids) == B

"""Under autocast a step taken again gives the same bits; overflow costs one teacher step."""

import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from tests.cases import STUDENTS, C, D, InputWeigher, Seen, stream
from tests.tutoring import live_tensors, same
from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy, weighted_loss
from tutelage.precision import FULL, autocast_now, autocast_to
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.teachers import Plain
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Estimate, Params, Window

CPU = torch.device("cpu")


class Student(nn.Module):
    """Batch norm and dropout, in full precision unless told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(D, 16)
        self.rest = nn.Sequential(
            nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, C)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.first(x))


class Halved(Student):
    """Enters autocast for its first layer by itself."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.first(x)
        return self.rest(hidden.float())


def narrow() -> Iterator[Batch]:
    for batch in stream():
        yield batch._replace(inputs=batch.inputs.float())


def tutor_of(signal: Signal, student: nn.Module | None = None, **settings: Any) -> Tutor:
    student = Student() if student is None else student
    torch.manual_seed(1)
    teacher = InputWeigher()
    return Tutor(
        student,
        SGD(student.parameters(), lr=0.1, momentum=0.9),
        teacher,
        SGD(teacher.parameters(), lr=0.1),
        signal=signal,
        teacher_every=signal.steps,
        **settings,
    )


def region(on: bool, dtype: torch.dtype = torch.bfloat16) -> torch.autocast:
    return torch.autocast("cpu", dtype=dtype, enabled=on)


def trained(pattern: Sequence[bool], dtype: torch.dtype = torch.bfloat16) -> tuple:
    """A window of steps, those marked true inside an autocast region."""
    seen = Seen(len(pattern))
    tutor, batches = tutor_of(seen), narrow()
    for on in pattern:
        with region(on, dtype):
            tutor.step(next(batches), next(batches))
    return seen.calls[0]


@pytest.mark.parametrize("student", [Student, Halved])
@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_step_taken_again_gives_the_same_bits_wherever_it_is_taken(
    student, outside, dtype
) -> None:
    seen = Seen(1)
    tutor, batches = tutor_of(seen, student()), narrow()
    for number, on in enumerate([True, False, True, True]):
        with region(on, dtype):
            record = tutor.step(next(batches), next(batches))
        problem, teacher_params, window, held_out = seen.calls[number]
        assert window.start is not None
        with region(on != outside, dtype):
            loss, _ = problem.training_loss(window.start, teacher_params, window.steps[0])
            grads, buffers = problem.gradient(window.start, teacher_params, window.steps[0])
            judged = problem.held_out_loss(window.end, teacher_params, held_out)
        assert torch.equal(loss, record.loss)
        assert same(grads, {k: p.grad for k, p in tutor.student.named_parameters()})
        assert same(buffers, dict(tutor.student.named_buffers()))
        with region(on, dtype):
            assert torch.equal(
                judged, problem.held_out_loss(window.end, teacher_params, held_out)
            )


SIGNALS: list[Signal] = [Unrolled(3), Replayed(3), Reversible(3), Lookahead()]


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    "pattern", [(True, True, True), (True, False, True), (False, True, False)]
)
def test_a_hypergradient_is_the_same_inside_and_outside_the_region(pattern, signal) -> None:
    call = trained(pattern)
    found = []
    for on in (False, True):
        with region(on), autocast_to(FULL, CPU):
            found.append(signal(*call).grad)
    assert all(g.dtype == torch.float32 for g in found[0].values())
    assert same(*found)


def test_the_precision_of_the_steps_matters_to_the_hypergradient() -> None:
    full, half = trained([False] * 3), trained([True] * 3)
    a, b = (Unrolled(3)(*call).grad["net.0.weight"] for call in (full, half))
    assert 1e-4 < float((a - b).abs().max() / a.abs().max()) < 0.1


def test_a_region_around_the_loop_is_a_region_around_each_step() -> None:
    # casts of the weights, kept until the region ends, would hide the optimiser's steps
    around, each = tutor_of(Unrolled(2)), tutor_of(Unrolled(2))
    with region(on=True):
        for batch in itertools.islice(narrow(), 6):
            around.step(batch, batch)
    for batch in itertools.islice(narrow(), 6):
        with region(on=True):
            each.step(batch, batch)
    assert same(around.state_dict(), each.state_dict())


def test_a_region_around_the_loop_holds_on_to_no_tensor() -> None:
    tutor, batches, counts = tutor_of(Unrolled(2)), narrow(), []
    with region(on=True):
        for number in range(20):
            tutor.step(next(batches), next(batches))
            if number in (5, 19):
                counts.append(live_tensors())
    assert counts[0] == counts[1]


def test_the_precision_of_a_half_full_window_survives_a_resume() -> None:
    first, unbroken, batches = tutor_of(Unrolled(2)), tutor_of(Unrolled(2)), narrow()
    one, two = next(batches), next(batches)
    for tutor in (first, unbroken):
        with region(on=True):
            tutor.step(one)
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second = tutor_of(Unrolled(2))
    second.load_state_dict(torch.load(stored, weights_only=True))
    for tutor in (second, unbroken):
        tutor.step(two, two)
    assert same(second.state_dict(), unbroken.state_dict())


def test_autocast_comes_back_as_the_caller_had_it() -> None:
    assert autocast_now(CPU) == FULL
    assert autocast_now(torch.device("meta")) == FULL
    with region(on=True, dtype=torch.float16):
        with autocast_to(FULL, CPU):
            assert autocast_now(CPU) == FULL
            with autocast_to(torch.bfloat16, CPU):
                assert autocast_now(CPU) == torch.bfloat16
        assert autocast_now(CPU) == torch.float16
        assert torch.is_autocast_cache_enabled()
    assert autocast_now(CPU) == FULL


class LongShort(nn.Module):
    """A recurrent layer that has a kernel of its own for half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 5, batch_first=True)
        self.head = nn.Linear(5, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.reshape(len(x), -1, 2))[0][:, -1])


def has_half_lstm() -> bool:
    """Whether this processor has the kernel; those without AVX-512 have not."""
    try:
        with region(on=True):
            LongShort()(torch.zeros(1, D))
    except RuntimeError:
        return False
    return True


def hypergradient(make: Callable[[], nn.Module], dtype: torch.dtype, *, half: bool) -> Tensor:
    torch.manual_seed(0)
    student, teacher, seen = make().to(dtype), InputWeigher().to(dtype), Seen(2)
    optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
    learner = SGD(teacher.parameters(), lr=0.0)
    tutor = Tutor(student, optimizer, teacher, learner, signal=seen, teacher_every=2)
    batches = (batch._replace(inputs=batch.inputs.to(dtype)) for batch in stream())
    for _ in range(2):
        with region(half):
            tutor.step(next(batches), next(batches))
    grads = Unrolled(2)(*seen.calls[0]).grad
    return torch.cat([g.flatten().double() for g in grads.values()])


@pytest.mark.parametrize("name", [*STUDENTS, "long short"])
def test_hypergradients_in_single_and_half_precision_come_close_to_those_in_double(
    name,
) -> None:
    make = (STUDENTS | {"long short": LongShort})[name]
    want = hypergradient(make, torch.float64, half=False)
    single = hypergradient(make, torch.float32, half=False)
    # a hundred roundings of float32, ten of bfloat16
    assert (single - want).norm() <= 1e-5 * want.norm()
    if make is LongShort and not has_half_lstm():
        pytest.skip("PyTorch has no LSTM in bfloat16 for this processor")
    half = hypergradient(make, torch.float32, half=True)
    assert (half - want).norm() <= 0.04 * want.norm()


# Overflow.


@pytest.mark.parametrize("signal", SIGNALS, ids=lambda s: type(s).__name__)
def test_overflow_in_half_precision_costs_one_teacher_step_and_no_more(signal) -> None:
    tutor, batches = tutor_of(signal), narrow()
    before = [p.detach().clone() for p in tutor.teacher.parameters()]
    for number in range(2 * signal.steps):
        held_out = next(batches)
        if number == signal.steps - 1:  # the first layer's output leaves float16's range
            held_out = held_out._replace(inputs=held_out.inputs * 1e6)
        with region(on=True, dtype=torch.float16):
            tutor.step(next(batches), held_out)
        if number == signal.steps - 1:
            assert tutor.skipped_teacher_steps == 1
            assert same([*tutor.teacher.parameters()], before)
    assert tutor.skipped_teacher_steps == 1
    for p, start in zip(tutor.teacher.parameters(), before, strict=True):
        assert p.isfinite().all()
        assert not torch.equal(p, start)


@pytest.mark.parametrize("normalise", ["mean", "group", None])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_many_weights_in_half_precision_are_summed_in_full(normalise, dtype) -> None:
    # 70,000 is beyond float16, whose largest number is 65,504
    losses = torch.full((70_000,), 0.5, dtype=dtype)
    weights = torch.ones(70_000, dtype=dtype, requires_grad=True)
    loss = weighted_loss(losses, weights, torch.arange(70_000), normalise)
    assert loss.dtype == torch.float32
    assert loss.item() == 0.5
    (grad,) = torch.autograd.grad(loss, weights)
    assert grad.isfinite().all()


def test_a_large_but_finite_hypergradient_is_not_taken_for_overflow() -> None:
    class Large(Seen):
        def __init__(self, steps: int, size: float) -> None:
            super().__init__(steps)
            self.size = size

        def __call__(
            self,
            problem: BilevelProblem,
            teacher_params: Params,
            window: Window,
            held_out: Batch,
        ) -> Estimate:
            loss = problem.held_out_loss(window.end, teacher_params, held_out)
            return Estimate(
                {k: torch.full_like(p, self.size) for k, p in teacher_params.items()}, loss
            )

    batch = next(narrow())
    for size, skipped in ((1e18, 0), (1e25, 1)):  # Adam's memory of 1e50 would not be finite
        tutor = tutor_of(Large(1, size))
        tutor.step(batch, batch)
        assert tutor.skipped_teacher_steps == skipped


@pytest.mark.parametrize(("half", "rows"), [(torch.bfloat16, 257), (torch.float16, 70_000)])
def test_held_out_examples_are_counted_exactly_whatever_the_student_s_precision(
    half, rows
) -> None:
    torch.manual_seed(0)
    student = nn.Linear(4, C).to(half)
    view = StudentView(student, SGD(student.parameters(), lr=0.1))
    x, y = torch.randn(rows, 4, dtype=half), torch.randint(C, (rows,))
    judged = BilevelProblem(view, Plain(), cross_entropy).held_out_loss(
        view.state(), {}, Batch(x, y, torch.arange(rows))
    )
    want = cross_entropy(student(x).double(), y).mean()
    assert float(judged.detach()) == pytest.approx(float(want.detach()), rel=1e-3)

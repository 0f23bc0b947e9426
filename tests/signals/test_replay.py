"""A replayed step is the step that was taken, whatever was drawn and however it was built."""

import gc
import itertools
import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from tests.cases import C, D, InputWeigher, Seen, build, stream, watched
from tests.tutoring import Copies, mixed_student, teaching
from tutelage.errors import UsageError
from tutelage.losses.objectives import cross_entropy
from tutelage.signals import Lookahead, Replayed, Reversible, Unrolled, replay_costs
from tutelage.signals.adjoint import replay_step
from tutelage.signals.live_bytes import LiveBytes
from tutelage.signals.replay_costs import FirstStep
from tutelage.signals.replay_plan import bytes_of
from tutelage.signals.replayed import Segment
from tutelage.teachers import InternalState
from tutelage.training.tutor import Tutor


class DroppingOut(InputWeigher):
    """A teacher with dropout of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, 20), nn.Dropout(0.5), nn.Linear(20, 1))


def noisy(logits: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(logits + 0.3 * torch.randn_like(logits), targets)


@pytest.mark.parametrize(
    ("teacher", "objective"),
    [
        (Copies, cross_entropy),
        (InputWeigher, cross_entropy),
        (DroppingOut, cross_entropy),
        (InputWeigher, noisy),
    ],
    ids=["copies", "weights", "teacher with dropout", "objective with noise"],
)
def test_a_replayed_step_draws_what_the_step_drew(teacher, objective) -> None:
    torch.manual_seed(0)
    student, seen = mixed_student(), Seen(1)
    tutor = teaching(seen, student=student, teacher=teacher().double(), objective=objective)
    batch, before = next(stream()), torch.get_rng_state()
    record = tutor.step(batch, batch)
    problem, teacher_params, window, _ = seen.calls[0]
    assert window.start is not None
    replayed, _ = problem.training_loss(window.start, teacher_params, window.steps[0])
    torch.testing.assert_close(replayed.detach(), record.loss, rtol=1e-14, atol=0)
    assert torch.equal(torch.get_rng_state(), before)


OPTIMIZERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "sgd by default": lambda s: SGD(s.parameters()),
    "sgd, a whole number as rate": lambda s: SGD(s.parameters(), lr=1),
    "sgd, a tensor as rate": lambda s: SGD(s.parameters(), lr=torch.tensor(0.1), momentum=0.9),
    "sgd, fused": lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9, fused=True),
    "sgd, foreach": lambda s: SGD(s.parameters(), lr=0.1, momentum=0.9, foreach=True),
    "adam by default": lambda s: Adam(s.parameters()),
    "adam, a tensor as rate": lambda s: Adam(s.parameters(), lr=torch.tensor(0.01)),
    "adam, fused": lambda s: Adam(s.parameters(), lr=0.01, fused=True),
    "adam, foreach": lambda s: Adam(s.parameters(), lr=0.01, foreach=True),
    "adam, named": lambda s: Adam(s.named_parameters(), lr=0.01),
    "adam, decoupled": lambda s: Adam(
        s.parameters(), lr=0.01, weight_decay=0.1, decoupled_weight_decay=True
    ),
    "adamw by default": lambda s: AdamW(s.parameters()),
}


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_replay_takes_the_steps_of_an_optimiser_however_it_was_built(name, loaded) -> None:
    student, seen = build("relu network"), Seen(3)
    optimizer, teacher = OPTIMIZERS[name](student), InputWeigher().double()
    learner = SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, learner, signal=seen, teacher_every=3)
    batches = stream()
    for number in range(6):
        if loaded and number == 3:
            optimizer.load_state_dict(optimizer.state_dict())
        tutor.step(next(batches), next(batches))
    problem, teacher_params, window, _ = seen.calls[1]
    assert window.start is not None
    state = window.start._replace(
        params={k: p.requires_grad_() for k, p in window.start.params.items()}
    )
    for step in window.steps:
        state = problem.differentiable_step(state, teacher_params, step)
    for key, want in window.end.params.items():
        # a rate held in a float32 tensor is rounded to it by torch
        torch.testing.assert_close(state.params[key].detach(), want, rtol=1e-7, atol=1e-8)
    assert state.slots.keys() == window.end.slots.keys()


@pytest.mark.parametrize("signal", [Unrolled(2), Reversible(2), Lookahead()])
def test_a_step_under_autocast_gives_full_precision_to_student_and_teacher(signal) -> None:
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(D, 16), nn.ReLU(), nn.Linear(16, C))
    teacher = InternalState(student, classes=C, tap="1", surface=("loss", "margin"))
    tutor = teaching(signal, student=student, teacher=teacher)
    batches = stream()
    for _ in range(4):
        batch = next(batches)
        batch = batch._replace(inputs=batch.inputs.float())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert tutor.step(batch, batch).loss.dtype == torch.float32
    assert tutor.skipped_teacher_steps == 0
    for p in itertools.chain(student.parameters(), teacher.parameters()):
        assert p.dtype == torch.float32
        assert p.isfinite().all()


@pytest.mark.parametrize(
    ("memory", "named"), [("sqrt", "steps 12 to 13"), ("log", "step 14"), (3, "step 14")]
)
def test_a_segment_that_replays_differently_is_named(memory, named) -> None:
    class Counting(nn.Module):
        """Keeps a count outside of itself."""

        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Linear(D, C)

        def forward(self, x: Tensor) -> Tensor:
            return self.map(x) * (1 + 1e-9 * next(calls))

    calls = itertools.count(1)

    torch.manual_seed(0)
    module = Counting().double()
    optimizer = Adam(module.parameters(), lr=0.01)
    call = watched(module, optimizer, InputWeigher().double(), steps=16)
    with pytest.raises(FloatingPointError, match=f"Replaying {named} gave another map"):
        Replayed(16, memory)(*call)


@pytest.mark.parametrize("memory", ["sqrt", "log", 2, 5])
@pytest.mark.parametrize("steps", [1, 2, 7, 23])
def test_every_way_of_keeping_states_gives_the_unrolled_hypergradient(steps, memory) -> None:
    module = build("group norm")  # its gradient rounds differently when it keeps a graph
    optimizer = Adam(module.parameters(), lr=0.01)
    call = watched(module, optimizer, InputWeigher().double(), steps=steps, before=1)
    got, want = Replayed(steps, memory)(*call).grad, Unrolled(steps)(*call).grad
    for key, value in want.items():
        torch.testing.assert_close(got[key], value, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("memory", ["sqrt", "log", 3])
@pytest.mark.parametrize("steps", [1, 2, 9, 23])
def test_a_plan_counts_the_gradients_and_states_of_its_run(steps, memory, monkeypatch) -> None:
    alive = []

    def counted(*args):
        segments = (one for one in gc.get_objects() if isinstance(one, Segment))
        alive.append(len({id(one.start) for one in segments}))
        return replay_step(*args)

    monkeypatch.setattr("tutelage.signals.replayed.replay_step", counted)
    module = nn.Linear(D, C).double()
    optimizer = SGD(module.parameters(), lr=0.1)
    problem, teacher_params, window, held_out = watched(
        module, optimizer, InputWeigher().double(), steps=steps
    )
    signal = Replayed(steps, memory)
    assert window.start is not None
    plan = signal.plan(problem, teacher_params, window.start, window.steps)
    signal(problem, teacher_params, window, held_out)
    assert len(alive) == round(plan.passes * steps)
    assert max(alive) == plan.states


@pytest.mark.parametrize("steps", [1, 7, 40])
def test_a_budget_gives_the_fastest_plan_that_fits(steps) -> None:
    module = build("group norm")
    optimizer = Adam(module.parameters(), lr=0.01)
    call = watched(module, optimizer, InputWeigher().double(), steps=steps, before=1)
    problem, teacher_params, window, held_out = call
    assert window.start is not None
    want, passes = Unrolled(steps)(*call).grad, []
    product, start = Replayed(steps).product, window.start
    parts = FirstStep(
        problem, product, teacher_params, start, window.steps[0], held_out
    ).memory()
    whole = (parts.state + parts.graph) * (steps + 1) + parts.rest
    for share in (1.0, 0.5, 0.25, 0.1):
        signal = Replayed(steps, budget=f"{whole * share / 1e3} kB")
        try:
            plan = signal.plan(problem, teacher_params, window.start, window.steps, held_out)
        except UsageError as error:
            assert "are needed at least" in str(error)  # noqa: PT017
            continue
        assert plan.peak_bytes is not None
        assert plan.peak_bytes <= whole * share
        passes.append(plan.passes)
        grad = signal(*call).grad
        for key, value in want.items():
            torch.testing.assert_close(grad[key], value, rtol=1e-7, atol=1e-12)
    assert passes == sorted(passes)
    assert passes[0] == 1


class Operators(TorchDispatchMode):
    """Counts operators, a clock that no other process slows down."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("rows", [1, 200], ids=["held-out batch of 1", "of 200"])
def test_a_plan_predicts_the_memory_of_its_run_down_to_the_least_budget(rows) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(D, 400), nn.Tanh(), nn.Linear(400, C)).double()
    optimizer = Adam(module.parameters(), lr=0.01)
    problem, teacher_params, window, held_out = watched(
        module, optimizer, InputWeigher().double(), steps=20
    )
    assert window.start is not None
    many = torch.arange(rows) % len(held_out.ids)
    held_out = held_out._replace(
        inputs=held_out.inputs[many], targets=held_out.targets[many], ids=torch.arange(rows)
    )
    run = problem, teacher_params, window.start, window.steps, held_out
    with pytest.raises(UsageError, match="are needed at least") as refused:
        Replayed(20, budget="1 kB").plan(*run)
    least = float(re.findall(r"([0-9.]+) MB are needed", str(refused.value))[0])
    peaks = []
    for budget in (least, 1.1 * least, 1.5 * least, 1000.0):
        signal = Replayed(20, budget=f"{budget} MB")
        plan = signal.plan(*run)
        with LiveBytes() as alive:
            signal(problem, teacher_params, window, held_out)
        assert plan.peak_bytes == pytest.approx(alive.peak, rel=0.2)
        peaks.append(alive.peak)
    assert peaks == sorted(peaks)
    assert peaks[-1] > 1.5 * peaks[0]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_plan_predicts_the_time_of_its_run_in_plain_steps(share, monkeypatch) -> None:
    module = build("group norm")
    optimizer = Adam(module.parameters(), lr=0.01)
    problem, teacher_params, window, held_out = watched(
        module, optimizer, InputWeigher().double(), steps=20
    )
    assert window.start is not None
    run = problem, teacher_params, window.start, window.steps, held_out
    most = Replayed(20, budget="1 GB").plan(*run).peak_bytes
    assert most is not None
    signal = Replayed(20, budget=f"{share * most / 1e3} kB")
    signal(
        problem, teacher_params, window, held_out
    )  # the first estimate checks the student, too
    with Operators() as operators:
        clock = SimpleNamespace(process_time=lambda: float(operators.count))
        monkeypatch.setattr(replay_costs, "time", clock)
        plan = signal.plan(*run)
        before = operators.count
        problem.step(window.start, teacher_params, window.steps[0])
        plain = operators.count - before
        before = operators.count
        signal(problem, teacher_params, window, held_out)
        came = (operators.count - before) / plain
    assert plan.plain_steps == pytest.approx(came, rel=0.2)
    assert (plan.passes == 1) == (share == 1)


def test_bytes_alive_at_the_same_time_are_counted() -> None:
    given = torch.zeros(1000)
    with LiveBytes() as alive:
        one = torch.ones(100)
        two = one.view(10, 10)  # no memory of its own
        assert alive.peak == 400
        del one, two
        three = given + 1
        assert alive.peak == 4000
        four = three * 2
    assert alive.peak == 8000
    assert len(three) == len(four)


@pytest.mark.parametrize("budget", ["500", "MB", "-3 MB", "1.2.3 GB", "120%", "0%"])
def test_a_budget_that_is_none_is_refused(budget) -> None:
    with pytest.raises(UsageError, match=r"such as '500 MB' or '25%'; got"):
        Replayed(3, budget=budget)


def test_memory_and_budget_exclude_one_another() -> None:
    with pytest.raises(ValueError, match="memory or budget, not both"):
        Replayed(3, "log", budget="1 MB")


def test_a_percentage_of_free_memory_is_a_budget() -> None:
    assert 0 < bytes_of("1%", torch.device("cpu")) < 2**50

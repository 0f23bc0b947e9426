"""A student that was compiled, whole or in parts, is taught as the same student eager is."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.utils.checkpoint import checkpoint

from tests.cases import C, D, InputWeigher, Seen, stream
from tutelage.errors import UnsupportedStudentError
from tutelage.signals import Lookahead, Replayed, Reversible, Signal, Unrolled
from tutelage.teachers import InternalState
from tutelage.training.tutor import Tutor
from tutelage.types import Estimate

BACKEND = "aot_eager"  # has no second derivative, as the default backend, and compiles faster


def network() -> nn.Sequential:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(D, 6), nn.Tanh(), nn.Dropout(0.4))
    return nn.Sequential(body, nn.Linear(6, C)).double()


def wrapped() -> nn.Module:
    student = torch.compile(network(), backend=BACKEND)
    assert isinstance(student, nn.Module)
    return student


def in_place() -> nn.Module:
    student = network()
    student.compile(backend=BACKEND)
    return student


def part_wrapped() -> nn.Module:
    student = network()
    part = torch.compile(student[0], backend=BACKEND)
    assert isinstance(part, nn.Module)
    student[0] = part
    return student


def part_in_place() -> nn.Module:
    student = network()
    student[0].compile(backend=BACKEND)
    return student


COMPILED: dict[str, Callable[[], nn.Module]] = {
    "wrapped": wrapped,
    "in place": in_place,
    "a part wrapped": part_wrapped,
    "a part in place": part_in_place,
}


def shown(student: nn.Module, teacher: nn.Module) -> list:
    """What a signal is shown after two real steps, and the losses of those."""
    seen = Seen(2)
    optimizer = SGD(student.parameters(), lr=0.1, momentum=0.9)
    learner = SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, learner, signal=seen, teacher_every=2)
    batches = stream()
    losses = [tutor.step(next(batches), next(batches)).loss for _ in range(2)]
    return [*seen.calls[0], losses]


def blind(_: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    return InputWeigher().double()


def looking(student: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    surface = ("loss", "margin")
    teacher = InternalState(student, classes=C, tap="0.1", tap_width=6, surface=surface)
    nn.init.normal_(next(teacher.net.parameters()))
    return teacher.double()


@pytest.mark.parametrize("make_teacher", [blind, looking])
@pytest.mark.parametrize("kind", COMPILED)
def test_hypergradients_of_a_compiled_student_equal_those_of_the_eager_one(
    kind, make_teacher
) -> None:
    eager, student = network(), COMPILED[kind]()
    *want, eager_losses = shown(eager, make_teacher(eager))
    *call, losses = shown(student, make_teacher(student))
    for got, loss in zip(losses, eager_losses, strict=True):
        torch.testing.assert_close(got, loss, rtol=1e-10, atol=0)
    signals: list[Signal] = [Unrolled(2), Replayed(2), Reversible(2), Lookahead()]
    for signal in signals:
        got: Estimate = signal(*call)
        for key, grad in signal(*want).grad.items():
            torch.testing.assert_close(got.grad[key], grad, rtol=1e-9, atol=1e-12)


def test_what_a_compiled_student_recomputes_is_run_eagerly_on_the_parameters_of_its_step() -> (
    None
):
    class Recomputing(nn.Sequential):
        def forward(self, input: Tensor) -> Tensor:
            return self[1](checkpoint(self[0], input, use_reentrant=False))

    student = Recomputing(*network())
    student.compile(backend=BACKEND)
    signal, eager = Unrolled(2), network()
    want, call = shown(eager, blind(eager))[:-1], shown(student, blind(student))[:-1]
    for key, grad in signal(*want).grad.items():
        torch.testing.assert_close(signal(*call).grad[key], grad, rtol=1e-9, atol=1e-12)


def careless(graph: torch.fx.GraphModule, _: list) -> Callable:
    """A backend that draws a number more than the code it compiles, as the default one may."""

    def run(*args: object) -> object:
        torch.rand(1)
        return graph.forward(*args)

    return run


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_compiled_code_that_draws_other_numbers_than_its_replays_is_refused_at_once(
    rate,
) -> None:
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(D, 9), nn.Dropout(rate), nn.Linear(9, C)).double()
    student.compile(backend=careless)
    before = {name: p.detach().clone() for name, p in student.named_parameters()}
    if not rate:
        shown(student, blind(student))
        return
    with pytest.raises(UnsupportedStudentError, match=r"compiled Sequential.*fallback_random"):
        shown(student, blind(student))
    assert all(torch.equal(p, before[name]) for name, p in student.named_parameters())


def restarted(student: nn.Module, state: dict | None = None) -> tuple[Tutor, list]:
    """A tutor in the middle of a window, begun anew or gone on from a state."""
    teacher = blind(student)
    named = student.named_parameters()
    tutor = Tutor(
        student, Adam(named, lr=0.1), teacher, SGD(teacher.parameters(), lr=0.1),
        signal=Unrolled(2), teacher_every=2,
    )  # fmt: skip
    drawn = stream()
    batches = [next(drawn) for _ in range(6)]
    if state is None:
        for batch in batches[:3]:
            tutor.step(batch, batches[5])
    else:
        tutor.load_state_dict(state)
    return tutor, batches


@pytest.mark.parametrize("kind", COMPILED)
def test_a_state_has_plain_names_and_goes_on_whatever_is_compiled(kind) -> None:
    plain, batches = restarted(network())
    state = deepcopy(plain.state_dict())
    compiled, _ = restarted(COMPILED[kind]())
    kept = deepcopy(compiled.state_dict())
    assert "_orig_mod" not in repr(kept)
    assert kept["student"].keys() == state["student"].keys() == network().state_dict().keys()
    ends = []
    for tutor in (plain, restarted(network(), kept)[0], restarted(COMPILED[kind](), state)[0]):
        losses = [tutor.step(batch, batches[5]).loss for batch in batches[3:5]]
        ends.append([*losses, *(p.detach().clone() for p in tutor.teacher.parameters())])
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_orig_mod.module."])
def test_states_with_the_names_of_wrappers_are_still_read(prefix) -> None:
    tutor, _ = restarted(network())
    state = deepcopy(tutor.state_dict())
    state["student"] = {prefix + name: x for name, x in state["student"].items()}
    group = state["optimizer"]["param_groups"][0]
    group["param_names"] = [prefix + name for name in group["param_names"]]
    again, _ = restarted(part_in_place(), state)
    torch.testing.assert_close(again.student.state_dict(), tutor.student.state_dict())
    assert again.optimizer.param_groups[0]["param_names"][0] == "0.0.weight"
    part = restarted(part_wrapped())[0].student.state_dict()
    again.load_state_dict({**state, "student": part})
    torch.testing.assert_close([*again.student.state_dict().values()], [*part.values()])

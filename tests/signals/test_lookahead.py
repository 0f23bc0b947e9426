"""One step ahead within real training, against the same written by hand."""

import copy
import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer

from tests.cases import OPTIMIZERS, C, D, InputWeigher, Tied, build, stream
from tests.tutoring import WithoutForwardMode, live_tensors, same
from tutelage.errors import UnsupportedStudentError, UsageError
from tutelage.functional.optim import rule_for, settings_of
from tutelage.functional.student import StudentView
from tutelage.per_example import forward_dots
from tutelage.signals import Lookahead
from tutelage.signals.products import Alignment, Automatic, DoubleBackward, Product, row_dots
from tutelage.signals.signal import CHECK_EVERY
from tutelage.teachers import LossWeigher
from tutelage.training.step_strategy import PlainStep
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, Params

STUDENTS = ("relu network", "group norm", "batch norm", "tied", "recurrent", "attention")
RATE = 0.1


def taught(
    signal: Lookahead,
    name: str = "group norm",
    optimizer: str = "sgd",
    teacher: nn.Module | None = None,
) -> Tutor:
    student = build(name)
    torch.manual_seed(3)
    teacher = InputWeigher().double() if teacher is None else teacher
    learner = SGD(teacher.parameters(), lr=5.0)
    return Tutor(
        student, OPTIMIZERS[optimizer](student), teacher, learner, signal=signal, seed=5
    )


def train(tutor: Tutor, steps: int) -> None:
    train_stream, held_stream = stream(0), stream(1)
    for _ in range(steps):
        held_out = next(held_stream)
        tutor.step(next(train_stream), held_out if tutor.wants_held_out else None)


def loss_of(student: nn.Module, params: Params, batch: Batch) -> Tensor:
    buffers = {k: b.clone() for k, b in student.named_buffers()}
    return cross_entropy(
        functional_call(student, params | buffers, (batch.inputs,)),
        batch.targets,
        reduction="none",
    )


def clones(teacher: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in teacher.parameters()]


def weighed(
    teacher: nn.Module, batch: Batch, losses: Tensor, teacher_params: Params | None = None
) -> Tensor:
    own = dict(teacher.named_parameters()) if teacher_params is None else teacher_params
    inner = {k.removeprefix("net."): p for k, p in own.items()}
    weights = (
        functional_call(teacher.get_submodule("net"), inner, (batch.inputs,))
        .sigmoid()
        .squeeze(1)
    )
    return (weights * losses).sum() / weights.sum()


def gradients(loss: Tensor, params: Params, *, create_graph: bool = False) -> Params:
    found = torch.autograd.grad(
        loss, list(params.values()), create_graph=create_graph, allow_unused=True
    )
    pairs = zip(params.items(), found, strict=True)
    return {k: torch.zeros_like(p) if g is None else g for (k, p), g in pairs}


@pytest.mark.parametrize("name", ["relu network", "group norm", "tied", "recurrent"])
def test_restep_is_the_meta_weight_net_iteration(name: str) -> None:
    tutor = taught(Lookahead(mode="restep"), name)
    train(tutor, 4)

    student = build(name)
    torch.manual_seed(3)
    teacher = InputWeigher().double()
    learner = SGD(teacher.parameters(), lr=5.0)
    train_stream, held_stream = stream(0), stream(1)
    for _ in range(4):
        batch, held_out = next(train_stream), next(held_stream)
        params: Params = dict(student.named_parameters())
        losses = loss_of(student, params, batch)
        grads = gradients(weighed(teacher, batch, losses), params, create_graph=True)
        virtual = {k: p - RATE * grads[k] for k, p in params.items()}
        learner.zero_grad()
        loss_of(student, virtual, held_out).mean().backward()
        learner.step()
        with torch.no_grad():
            student.zero_grad()
        real = gradients(weighed(teacher, batch, loss_of(student, params, batch)), params)
        with torch.no_grad():
            for k, p in params.items():
                p -= RATE * real[k]
    for ours, theirs in zip(tutor.teacher.parameters(), teacher.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    for ours, theirs in zip(tutor.student.parameters(), student.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["relu network", "group norm", "tied", "recurrent"])
def test_the_next_step_judges_by_its_own_weighted_loss(name: str) -> None:
    tutor = taught(Lookahead(evaluate_on="next"), name)
    assert not tutor.wants_held_out
    train(tutor, 4)  # three teacher steps: the fourth student step is not judged yet

    student = build(name)
    torch.manual_seed(3)
    teacher = InputWeigher().double()
    learner = SGD(teacher.parameters(), lr=5.0)
    names = [k for k, _ in teacher.named_parameters()]
    used = [dict(zip(names, clones(teacher), strict=True))]
    batches = stream(0)
    batch, following = next(batches), next(batches)
    for _ in range(3):
        teacher_params = {k: p.requires_grad_() for k, p in used[-1].items()}
        params: Params = dict(student.named_parameters())
        taught_loss = weighed(teacher, batch, loss_of(student, params, batch), teacher_params)
        grads = gradients(taught_loss, params, create_graph=True)
        after = {k: p - RATE * grads[k] for k, p in params.items()}
        now = dict(
            zip(names, clones(teacher), strict=True)
        )  # the weights of the step that judges
        judge = weighed(teacher, following, loss_of(student, after, following), now)
        found = torch.autograd.grad(judge, list(teacher_params.values()))
        for p, g in zip(teacher.parameters(), found, strict=True):
            p.grad = g
        learner.step()
        with torch.no_grad():
            for k, p in params.items():
                p.copy_(after[k])
        used.append(now)
        batch, following = following, next(batches)
    for ours, theirs in zip(tutor.teacher.parameters(), teacher.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("optimizer", ["dampening", "adam", "scheduled groups"])
@pytest.mark.parametrize("mode", ["online", "restep", "next"])
@pytest.mark.parametrize("name", STUDENTS)
def test_what_is_read_off_the_passes_equals_a_double_backward(name, mode, optimizer) -> None:
    trained = []
    for product in (Automatic(), DoubleBackward()):
        judged_by_next_step = mode == "next"
        signal = (
            Lookahead(product, evaluate_on="next")
            if judged_by_next_step
            else Lookahead(product, mode)
        )
        tutor = taught(signal, name, optimizer)
        train(tutor, 3)
        trained.append([*clones(tutor.teacher), *clones(tutor.student)])
    for ours, theirs in zip(*trained, strict=True):
        # Adam makes a step out of the rounding of a gradient that is zero
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("method", "bound"), [("difference", 1e-4), ("one-sided", 1e-2)])
def test_differences_of_losses_come_close(method, bound: float) -> None:
    trained = []
    for product in (Alignment(method), DoubleBackward()):
        tutor = taught(Lookahead(product))
        start = torch.cat([p.flatten() for p in clones(tutor.teacher)])
        train(tutor, 1)
        trained.append(torch.cat([p.flatten() for p in clones(tutor.teacher)]) - start)
    assert float((trained[0] - trained[1]).norm() / trained[1].norm()) < bound


class Sparing(InputWeigher):
    """Leaves some rows out altogether, yet learns how much they should have counted."""

    def weigh(self, prepared, observation) -> Tensor:  # noqa: ARG002 - the interface
        raw = self.net(prepared.inputs).squeeze(1) + 0.2
        return raw.clamp(min=0) + (raw - raw.detach())  # weight 0 with a derivative


def test_rows_of_weight_zero_are_looked_at_in_another_way() -> None:
    trained = []
    for product in (Automatic(), DoubleBackward()):
        torch.manual_seed(3)
        tutor = taught(Lookahead(product), teacher=Sparing().double())
        train(tutor, 3)
        trained.append(clones(tutor.teacher))
    for ours, theirs in zip(*trained, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", STUDENTS)
@pytest.mark.parametrize(
    "signal", [Lookahead(), Lookahead(mode="restep"), Lookahead(evaluate_on="next")], ids=str
)
def test_a_look_ahead_leaves_no_tensor_behind(name, signal) -> None:
    tutor = taught(signal, name)
    train(tutor, 5)
    gc.collect()
    before = live_tensors()
    train(tutor, CHECK_EVERY)  # checks are again as far as they were
    assert live_tensors() == before


def test_a_look_ahead_of_the_last_layer_leaves_no_tensor_behind() -> None:
    signal = Lookahead(layers="last")
    tutor = taught(signal, "batch norm")
    train(tutor, 5)
    gc.collect()
    before = live_tensors()
    train(tutor, signal.check_every)
    assert live_tensors() == before


@pytest.mark.parametrize("name", ["group norm", "batch norm", "attention"])
def test_a_run_stopped_before_its_judge_came_resumes_bit_for_bit(name: str) -> None:
    def build_tutor() -> Tutor:
        return taught(Lookahead(evaluate_on="next"), name, "momentum")

    whole = build_tutor()
    train(whole, 6)
    first, second = build_tutor(), build_tutor()
    train_stream = stream(0)
    for _ in range(3):
        first.step(next(train_stream))
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        second.step(next(train_stream))
    assert same(second.state_dict(), whole.state_dict())


@pytest.mark.parametrize("product", [Automatic(), Alignment("ghost")], ids=str)
def test_a_trainable_parameter_that_the_optimiser_leaves_out_does_not_hinder_resuming(
    product,
) -> None:
    def build_tutor() -> Tutor:
        student = build("relu network")
        assert isinstance(student, nn.Sequential)
        torch.manual_seed(3)
        teacher = InputWeigher().double()
        learner = SGD(teacher.parameters(), lr=5.0)
        head = Adam(student[2].parameters(), lr=0.01)
        return Tutor(
            student, head, teacher, learner, signal=Lookahead(product, evaluate_on="next")
        )

    whole = build_tutor()
    train(whole, 4)
    first, second = build_tutor(), build_tutor()
    batches = stream(0)
    for _ in range(2):
        first.step(next(batches))
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.step(next(batches))
    assert same(second.state_dict(), whole.state_dict())


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_a_parameter_frozen_before_the_judge_came_is_refused_resumed_or_not(optimizer) -> None:
    whole, first, second = (
        taught(Lookahead(evaluate_on="next"), "relu network", optimizer) for _ in range(3)
    )
    batches = stream(0)
    batch, following = next(batches), next(batches)
    for tutor in (whole, first):
        tutor.step(batch)
    second.load_state_dict(first.state_dict())
    for tutor in (whole, second):
        tutor.student.get_parameter("0.weight").requires_grad = False
        before = clones(tutor.teacher)
        with pytest.raises(UnsupportedStudentError, match=r"0\.weight.*evaluate_on='held-out'"):
            tutor.step(following)  # what it moved has no gradient of the next step's loss
        for ours, theirs in zip(clones(tutor.teacher), before, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("mode", ["online", "restep"])
@pytest.mark.parametrize("weigher", [InputWeigher, Sparing])
def test_an_operator_without_forward_mode_is_looked_at_in_another_way(weigher, mode) -> None:
    trained = []
    for product in (Automatic(), DoubleBackward()):
        torch.manual_seed(3)
        middle = (nn.BatchNorm1d(5), WithoutForwardMode(), nn.Dropout(0.2))
        student = nn.Sequential(nn.Linear(D, 5), *middle, nn.Linear(5, C)).double()
        teacher = weigher().double()
        learner = SGD(teacher.parameters(), lr=5.0)
        optimizer = Adam(student.parameters(), lr=0.01)
        tutor = Tutor(student, optimizer, teacher, learner, signal=Lookahead(product, mode))
        train(tutor, 3)
        trained.append([*clones(tutor.teacher), *clones(tutor.student)])
    for ours, theirs in zip(*trained, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_restep_uses_the_students_own_optimiser_and_statistics_once() -> None:
    student = build("batch norm")
    teacher = LossWeigher().double()
    optimizer: Optimizer = SGD(student.parameters(), lr=RATE, momentum=0.9)
    learner = Adam(teacher.parameters(), lr=1e-2)
    tutor = Tutor(student, optimizer, teacher, learner, signal=Lookahead(mode="restep"))
    batches = stream()
    for number in range(3):
        tutor.step(next(batches), next(batches))
        assert int(student.get_buffer("2.num_batches_tracked")) == number + 1
    assert all("momentum_buffer" in optimizer.state[p] for p in student.parameters())


def test_combinations_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="use mode='online'"):
        Lookahead(mode="restep", evaluate_on="next")


class TiedHead(nn.Module):
    """A head that shares its weight with an embedding, before which it may be registered."""

    def __init__(self, *, owner: str, norm: bool) -> None:
        super().__init__()
        embed, mix, head = nn.Embedding(C, 4), nn.Linear(4, 4), nn.Linear(4, C)
        if owner == "embed":
            self.embed, self.mix, self.head = embed, mix, head
            head.weight = embed.weight
        else:
            self.mix, self.head, self.embed = mix, head, embed
            embed.weight = head.weight
        self.norm = nn.BatchNorm1d(4) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x[:, :4] > 0).long() + (x[:, 4:] > 0).long()
        return self.head(torch.tanh(self.norm(self.mix(self.embed(tokens).sum(1)))))


class Standardised(nn.Module):
    """Batch statistics without a module that is known for them."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) / x.std(0)


class Attended(nn.Module):
    """Attention whose last linear layer is never called: its parent uses the parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.out = (
            nn.MultiheadAttention(4, 2, batch_first=True),
            nn.Conv1d(2, C, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(len(x), 2, 4)
        return self.out(self.attend(tokens, tokens, tokens)[0]).squeeze(2)


class After(nn.Module):
    """A part that runs after the last linear layer, though it is registered before."""

    def __init__(self, part: nn.Module, before: nn.Module) -> None:
        super().__init__()
        self.part, self.before = part, before
        self.head = nn.Linear(6, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.part(self.head(self.before(x)))


class Again(nn.Module):
    """One layer in two places, with batch normalisation between them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(D), nn.Conv1d(1, C, D)
        self.head = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        again = self.head(torch.tanh(self.norm(self.head(x))))
        return self.out(again.unsqueeze(1)).squeeze(2)


def hidden(*parts: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(D, 6), *parts, nn.Tanh())


LAST: dict[str, Callable[[], nn.Module]] = {
    "relu network": lambda: build("relu network"),
    "batch norm": lambda: build("batch norm"),
    "attention": Attended,
    "tied, without a bias": Tied,
    "tied": lambda: TiedHead(owner="embed", norm=False),
    "tied, norm between": lambda: TiedHead(owner="embed", norm=True),
    "tied, the head's weight": lambda: TiedHead(owner="head", norm=True),
    "registered after": lambda: nn.Sequential(hidden(), nn.Linear(6, C), nn.BatchNorm1d(C)),
    "run after": lambda: After(nn.BatchNorm1d(C), hidden()),
    "run after, with another before": lambda: After(
        nn.BatchNorm1d(C), hidden(nn.BatchNorm1d(6))
    ),
    "no module's statistics": lambda: After(Standardised(), hidden(nn.BatchNorm1d(6))),
    "parameters after": lambda: After(
        nn.Sequential(nn.LayerNorm(C), nn.PReLU(C)), hidden(nn.BatchNorm1d(6))
    ),
    "running statistics after": lambda: After(nn.BatchNorm1d(C).eval(), hidden()),
    "twice": Again,
}


@pytest.mark.parametrize("max_norm", [None, 0.1])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize(
    "product", [Automatic(), Alignment("ghost"), DoubleBackward()], ids=str
)
@pytest.mark.parametrize("name", LAST)
def test_the_last_layer_alone_is_a_step_whose_other_gradients_are_constants(
    name, product, optimizer, max_norm
) -> None:
    batch, held_out = next(stream(0)), next(stream(1))
    torch.manual_seed(0)
    student = LAST[name]().double()
    torch.manual_seed(3)
    teacher = InputWeigher().double()
    own = OPTIMIZERS[optimizer](student)
    rule, view = rule_for(own, max_norm), StudentView(student, own)
    start = view.snapshot()
    params = {k: p.detach().requires_grad_() for k, p in start.params.items()}
    loss = weighed(teacher, batch, loss_of(student, params, batch))
    *_, layer = (part for part in student.modules() if isinstance(part, nn.Linear))
    used = {id(p) for p in layer.parameters()}
    last = [k for k, p in student.named_parameters() if id(p) in used]
    grads = gradients(loss, params, create_graph=True)
    grads = {k: g if k in last else g.detach() for k, g in grads.items()}
    after = rule.update(start, grads, settings_of(own, view.names)).params
    after = {k: p if k in last else p.detach() for k, p in after.items()}
    teacher_params: Params = dict(teacher.named_parameters())
    expected = gradients(loss_of(student, after, held_out).mean(), teacher_params)

    before = clones(teacher)
    learner, strategy = SGD(teacher.parameters(), lr=1.0), PlainStep(max_norm)
    signal = Lookahead(product, layers="last")
    tutor = Tutor(student, own, teacher, learner, signal=signal, step_strategy=strategy)
    tutor.step(batch, held_out)
    for now, then, g in zip(clones(teacher), before, expected.values(), strict=True):
        torch.testing.assert_close(then - now, g, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("batch norm", True),
        ("parameters after", True),
        ("running statistics after", True),
        ("run after, with another before", False),
        ("no module's statistics", False),
    ],
)
def test_rows_are_read_off_the_passes_unless_they_depend_on_one_another_after_the_last_layer(
    name, read, monkeypatch
) -> None:
    passes = []
    monkeypatch.setattr(
        row_dots, "forward_dots", lambda *args: passes.append(0) or forward_dots(*args)
    )
    tutor = taught_by_last(LAST[name]().double())
    train(tutor, 3)
    assert len(passes) == (0 if read else 3)


def test_a_norm_that_changes_to_batch_statistics_is_noticed() -> None:
    student = After(nn.BatchNorm1d(C), hidden()).double()
    tutors = [
        taught_by_last(copy.deepcopy(student), product)
        for product in (Automatic(), DoubleBackward())
    ]
    for tutor in tutors:
        part = tutor.student.get_submodule("part").eval()
        train(tutor, 6)  # the graph is known by then
        part.train()
        train(tutor, 1)
    for one, other in zip(*(clones(tutor.teacher) for tutor in tutors), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-12)


class Spare(nn.Module):
    """The linear layer that is registered last is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.spare = nn.Linear(D, C), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


@pytest.mark.parametrize("mode", ["online", "virtual"])
@pytest.mark.parametrize("max_norm", [None, 0.1])
def test_a_last_layer_that_takes_no_part_in_the_step_is_refused(mode, max_norm) -> None:
    student, teacher = Spare().double(), InputWeigher().double()
    own, learner = SGD(student.parameters(), RATE), SGD(teacher.parameters(), lr=1.0)
    signal, strategy = Lookahead(mode=mode, layers="last"), PlainStep(max_norm)
    tutor = Tutor(student, own, teacher, learner, signal=signal, step_strategy=strategy)
    with pytest.raises(UnsupportedStudentError, match=r"'spare'.*takes no part in the step"):
        train(tutor, 1)


def test_a_student_that_is_one_linear_layer_is_named() -> None:
    with pytest.raises(UsageError, match=r"a single Linear, .*take all layers"):
        taught_by_last(nn.Linear(D, C).double())


def test_the_last_layer_of_a_student_that_has_none_is_refused() -> None:
    student = nn.Sequential(nn.Flatten(), nn.Conv1d(D, C, 1))
    with pytest.raises(UsageError, match="Sequential has no linear layer"):
        taught_by_last(student)


def test_a_last_layer_that_is_not_trained_is_refused() -> None:
    student = build("relu network")
    *_, layer = student.children()
    layer.requires_grad_(False)
    with pytest.raises(UnsupportedStudentError, match="use layers='all'"):
        taught_by_last(student)


def taught_by_last(student: nn.Module, product: Product | None = None) -> Tutor:
    torch.manual_seed(3)
    teacher = InputWeigher().double()
    learner = SGD(teacher.parameters(), lr=1.0)
    signal = Lookahead(product or Automatic(), layers="last")
    return Tutor(student, SGD(student.parameters(), RATE), teacher, learner, signal=signal)


def test_a_change_before_the_next_step_is_refused_in_words_of_one_step() -> None:
    tutor = taught(Lookahead(evaluate_on="next"))
    batches = stream()
    tutor.step(next(batches))
    assert tutor.awaits_next_step

    def doubled(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        del module, inputs
        return 2 * output

    tutor.student.register_forward_hook(doubled)
    with pytest.raises(
        UnsupportedStudentError,
        match=r"^A step .* ends elsewhere .*tutor.awaits_next_step is False",
    ):
        tutor.step(next(batches))

"""One of two processes that train a student together; run by ``test_processes.py``."""

from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.checkpoint import checkpoint

from tests.cases import (
    OPTIMIZERS,
    STUDENTS,
    C,
    D,
    InputWeigher,
    Shifter,
    convolutional,
    stream,
)
from tests.cases import build as of_the_table
from tutelage.distributed.batch_norm import batch_norm_over
from tutelage.distributed.groups import (
    Group,
    Processes,
    SingleProcess,
    empty_like,
    even_batches,
)
from tutelage.errors import UnsupportedStudentError
from tutelage.signals import (
    GradientAlignment,
    Implicit,
    Lookahead,
    Neumann,
    NextStepLoss,
    Replayed,
    Reversible,
    Signal,
    Unrolled,
)
from tutelage.signals.products import (
    Alignment,
    DoubleBackward,
    FiniteDifference,
    ForwardOverReverse,
)
from tutelage.teachers import Aligned, DynamicLoss, InternalState, Plain
from tutelage.training.step_strategy import AmpStep, PlainStep
from tutelage.training.tutor import Tutor
from tutelage.types import Batch, PreparedBatch, as_prepared

LONG = 2
"""looks of the signal in a run: the first is checked in more ways than those after it"""
CUTS = {"even": 3, "uneven": 4, "all on one": 6}
"""rows of six that the first process has"""


class Experts(nn.Module):
    """Three layers, of which the two rows of a process reach two at most."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(D, C)
        self.experts = nn.ModuleList(nn.Linear(D, C) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        out, which = self.shared(x), (x[:, 0] > -0.5).long() + (x[:, 0] > 0.5).long()
        for number, expert in enumerate(self.experts):
            rows = (which == number).nonzero().squeeze(1)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]).tanh())
        return out


class Norms(nn.Module):
    """Batch normalisations of each kind, two of them side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.cumulative = nn.BatchNorm1d(6, momentum=None)
        self.untracked = nn.BatchNorm1d(2, track_running_stats=False)
        self.images = nn.BatchNorm2d(2, momentum=0.3)
        self.plain = nn.BatchNorm1d(6, affine=False)
        self.aside = nn.SyncBatchNorm(6)
        self.evaluated = nn.BatchNorm1d(6)
        self.idle = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        flat = self.cumulative(x)
        words = self.untracked(flat.unflatten(1, (2, 3)))
        images = self.images(words.tanh().unsqueeze(3)).flatten(1)
        both = self.plain(images.tanh() + x) + checkpoint(self.aside, flat, use_reentrant=False)
        self.evaluated.training = False
        return torch.cat([self.evaluated(both).tanh(), self.idle(both[:0])])


class OwnNorm(nn.Module):
    """Batch normalisation by torch's function, without a module of torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("var", torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.get_buffer("mean"), self.get_buffer("var")
        return F.batch_norm(x, mean, var, training=self.training)


class Branches(nn.Module):
    """Two layers of other widths, of which the number of rows decides."""

    def __init__(self) -> None:
        super().__init__()
        self.few, self.many = (
            nn.Sequential(nn.Linear(D, n), nn.BatchNorm1d(n), nn.Linear(n, C)) for n in (4, 6)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.few(x) if len(x) < 3 else self.many(x)


class WithoutFirst(InputWeigher):
    """Gives the first row of a batch no weight: recorded passes of its process show nothing."""

    def weigh(self, prepared, observation) -> Tensor:
        return super().weigh(prepared, observation) * (prepared.ids % 6 > 0)


class ByIds(nn.Module):
    """Samples, from ids alone, whether to move an example: the same in any process."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(2))

    def prepare(self, batch: Batch) -> PreparedBatch:
        action = batch.ids * 7 % 3 % 2
        moved = batch.inputs + 0.3 * action[:, None]
        chosen = self.logits.log_softmax(0)[action]
        return as_prepared(batch)._replace(inputs=moved, log_prob=chosen)


def build(name: str) -> nn.Module:
    """A student in float64."""
    if name in STUDENTS:
        return of_the_table(name)
    torch.manual_seed(0)
    if name == "sync batch norm":
        return convolutional(nn.SyncBatchNorm(4)).double()
    if name == "branches":
        return Branches().double()
    if name == "own norm":
        hidden = nn.Linear(D, 6), OwnNorm(), nn.Tanh()
        return nn.Sequential(*hidden, nn.Linear(6, C)).double()
    if name == "norms":
        return nn.Sequential(nn.Linear(D, 6), nn.Tanh(), Norms(), nn.Linear(6, C)).double()
    return Experts().double()


def tapping(student: nn.Module, *, attached: bool = False, level: str = "free") -> nn.Module:
    torch.manual_seed(7)
    teacher = InternalState(
        student, classes=3, tap="0", surface=("margin", "loss"), hidden_layers=1, width=4,
        attached=attached, level=level,
    )  # fmt: skip
    nn.init.normal_(teacher.net.get_parameter(f"{len(teacher.net) - 1}.weight"))
    return teacher.double()


TEACHERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "inputs": lambda _: InputWeigher().double(),
    "shift": lambda _: Shifter().double(),
    "taps": lambda student: tapping(student),
    "attached": lambda student: tapping(student, attached=True),
    "centred": lambda student: tapping(student, level="centred"),
    "dynamic loss": lambda _: DynamicLoss(C).double(),
    "without first": lambda _: WithoutFirst().double(),
    "by ids": lambda _: ByIds().double(),
}


class Case(NamedTuple):
    """How a student is taught."""

    signal: Signal
    teacher: str = "inputs"
    student: str = "relu network"
    optimizer: str = "momentum"
    wrapper: str = "ddp"
    cut: str = "uneven"
    max_norm: float | None = None
    micro_batch: int | None = None

    @property
    def looks(self) -> int:
        """Looks in a run; where the next step judges a look, that of the last is missing."""
        return LONG + (getattr(self.signal, "evaluate_on", "held-out") != "held-out")


def cases() -> Iterator[tuple[str, Case]]:
    """All that is tried, by name."""
    for teacher in ("inputs", "shift", "taps", "attached", "centred", "dynamic loss"):
        for signal in (Lookahead(), Unrolled(2), Replayed(2), Reversible(2)):
            yield f"{type(signal).__name__}, {teacher}", Case(signal, teacher)
    solve = Neumann(terms=4, scale=0.1)
    yield "Implicit", Case(Implicit(solve), "shift")
    for student in ("tied", "group norm", "layer norm", "unused rows and padding"):
        yield f"student {student}", Case(Replayed(2), student=student)
    for optimizer in ("scheduled groups", "adam", "adamw"):
        yield f"optimizer {optimizer}", Case(Lookahead(), optimizer=optimizer)
        yield f"two steps of {optimizer}", Case(Replayed(2), optimizer=optimizer)
    yield "clipped", Case(Replayed(2), max_norm=0.3)
    yield "a few rows at a time", Case(Lookahead(), micro_batch=2)
    yield "tried step", Case(Lookahead(mode="restep"))
    yield "tried plain step", Case(Lookahead(mode="virtual"))
    yield "judged by the next", Case(Lookahead(evaluate_on="next"), optimizer="adam")
    yield "reward", Case(GradientAlignment(), "by ids")
    yield "centred reward", Case(GradientAlignment(normalise="mean"), "by ids")
    yield "raw reward", Case(GradientAlignment(normalise="none"), "by ids")
    yield "held-out reward", Case(GradientAlignment(evaluate_on="held-out"), "by ids")
    yield "loss for a reward", Case(NextStepLoss(normalise="none"), "by ids")
    for product in (DoubleBackward(), ForwardOverReverse(), FiniteDifference(size=1e-4)):
        name = type(product).__name__
        yield f"product {name}", Case(Replayed(2, product=product), student="linear")
    for cut in ("even", "all on one"):
        yield f"cut {cut}", Case(Lookahead(), cut=cut)
        yield f"two steps, cut {cut}", Case(Replayed(2), cut=cut)
        yield f"centred, cut {cut}", Case(Replayed(2), "centred", cut=cut)
    yield from experts()
    yield from other_wrappers()
    yield from normalised()


def experts() -> Iterator[tuple[str, Case]]:
    """Students of whose parameters each process reaches others."""
    for wrapper in ("unused", "none"):
        for signal in (Replayed(2), Unrolled(2), Lookahead(mode="restep")):
            name = f"{wrapper}: experts, {type(signal).__name__}"
            yield name, Case(signal, student="experts", wrapper=wrapper)
        adam = Case(Lookahead(), student="experts", wrapper=wrapper, optimizer="adam")
        yield f"{wrapper}: experts, adam", adam
        yield f"{wrapper}: experts, a few rows", adam._replace(micro_batch=2)
        for product in (ForwardOverReverse(), FiniteDifference(size=1e-4)):
            how = Replayed(2, product=product)
            name = f"{wrapper}: experts, {type(product).__name__}"
            yield name, Case(how, student="experts", wrapper=wrapper)


def other_wrappers() -> Iterator[tuple[str, Case]]:
    """Students that are sharded, and such that nothing but the tutor adds up."""
    for wrapper in ("none", "fsdp"):
        yield f"{wrapper}: one step", Case(Lookahead(), wrapper=wrapper)
        yield f"{wrapper}: two steps", Case(Replayed(2), "shift", wrapper=wrapper)
        yield f"{wrapper}: undone", Case(Reversible(2), "taps", wrapper=wrapper)
        yield f"{wrapper}: adam", Case(Lookahead(), optimizer="adamw", wrapper=wrapper)
        yield f"{wrapper}: clipped", Case(Lookahead(), wrapper=wrapper, max_norm=0.3)
        yield f"{wrapper}: reward", Case(GradientAlignment(), "by ids", wrapper=wrapper)


def normalised() -> Iterator[tuple[str, Case]]:
    """Batch normalisation by the rows of both processes."""
    signals = {
        "one step": Lookahead(),
        "last layer": Lookahead(layers="last"),
        "tried step": Lookahead(mode="restep"),
        "tried plain step": Lookahead(mode="virtual"),
        "judged by the next": Lookahead(evaluate_on="next"),
        "unrolled": Unrolled(2),
        "replayed": Replayed(2),
        "undone": Reversible(2),
        "implicit": Implicit(Neumann(terms=4, scale=0.1)),
    }
    case = Case(Lookahead(), student="norms", wrapper="sync")
    for (name, signal), teacher in zip(
        signals.items(), cycle(list(TEACHERS)[:-1]), strict=False
    ):
        yield f"norms: {name}, {teacher}", case._replace(signal=signal, teacher=teacher)
    for reward in (GradientAlignment(), NextStepLoss("held-out", "none")):
        name = f"norms: {type(reward).__name__}"
        yield name, case._replace(signal=reward, teacher="by ids")
    products = FiniteDifference(size=1e-4), Alignment("difference"), Alignment("one-sided")
    for product in (ForwardOverReverse(), *products):
        name = f"norms: product {product}"
        yield name, case._replace(signal=Reversible(2, product=product))
    for signal in (Lookahead(), Reversible(2)):
        name = f"norms: {type(signal).__name__}, all on one"
        yield name, case._replace(signal=signal, cut="all on one", teacher="taps")
    yield "norms: images, all on one", case._replace(student="batch norm", cut="all on one")
    yield "norms: without a module", case._replace(student="own norm", teacher="inputs")
    yield "norms: adam", case._replace(optimizer="adam")
    yield (
        "norms: last layer, adam",
        case._replace(signal=Lookahead(layers="last"), optimizer="adam"),
    )
    last = case._replace(signal=Lookahead(layers="last"), teacher="without first")
    yield "norms: last layer, rows without weight", last
    yield "norms: clipped", case._replace(signal=Replayed(2), max_norm=0.3)
    sync = case._replace(student="sync batch norm", wrapper="none")
    yield "norms: SyncBatchNorm", sync._replace(signal=Reversible(2))
    yield "norms: ddp", case._replace(student="batch norm", wrapper="ddp and sync")


def part(batch: Batch, cut: int, rank: int) -> Batch:
    """A process's rows of a batch."""
    rows = slice(0, cut) if rank == 0 else slice(cut, None)
    return Batch(batch.inputs[rows], batch.targets[rows], batch.ids[rows])


def trained(case: Case, rank: int | None, looks: int | None = None) -> dict[str, Any]:
    """What comes of a run: of one process with all rows, or of one of two with its own."""
    looks = case.looks if looks is None else looks
    torch.manual_seed(0)
    inner = build(case.student)
    student, processes, cut = inner, None, CUTS[case.cut]
    if rank is not None:
        student, processes = wrapped(inner, case.wrapper)
    optimizer = OPTIMIZERS[case.optimizer](student)
    teacher = TEACHERS[case.teacher](inner)
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        SGD(teacher.parameters(), lr=0.1),
        signal=case.signal,
        teacher_every=case.signal.steps,
        total_steps=case.looks * case.signal.steps,
        step_strategy=PlainStep(case.max_norm),
        processes=processes,
        micro_batch=case.micro_batch,
    )
    batches, losses, judged = stream(), [], []
    for _ in range(looks * case.signal.steps):
        batch, held_out = next(batches), next(batches)
        if rank is not None:
            batch, held_out = part(batch, cut, rank), part(held_out, 6 - cut, rank)
        record = tutor.step(batch, held_out if tutor.wants_held_out else None)
        losses.append(record.loss)
        if record.held_out_loss is not None:
            judged.append(record.held_out_loss)
    state = tutor.problem.student.state()
    learned = {k: p.detach().clone() for k, p in teacher.named_parameters()}
    return {
        "student": state.params,
        "teacher": learned,
        "statistics": state.buffers,
        "losses": torch.tensor(losses),
        "judged": torch.tensor(judged),
    }


def wrapped(student: nn.Module, how: str) -> tuple[nn.Module, Processes | None]:
    """A student as one of several processes has it."""
    if how == "ddp":
        return DistributedDataParallel(student), None
    if how == "unused":
        return DistributedDataParallel(student, find_unused_parameters=True), None
    if how == "none":
        return student, Group(averages=False)
    if how == "sync":
        return student, Group(averages=False, sync_batch_norm=True)
    if how == "ddp and sync":
        return DistributedDataParallel(student), Group(sync_batch_norm=True)
    for layer in student.children():
        if list(layer.parameters()):
            fully_shard(layer)
    fully_shard(student)
    return student, None


def ending(rank: int) -> dict[str, Any]:
    """Five examples over two processes, one at a time; the clean one is known to one alone."""
    batch = next(stream())
    own = part(batch, 3, rank)
    rows = [part(part(own, n, 1), 1, 0) for n in range(3 - rank)]
    clean = part(batch, 1, 0) if rank == 0 else empty_like(batch)
    student = DistributedDataParallel(build("relu network"))
    teacher = InputWeigher().double()
    tutor = Tutor(
        student,
        SGD(student.parameters(), lr=0.1),
        teacher,
        SGD(teacher.parameters(), lr=0.1),
        signal=Lookahead(),
    )
    for rows_here in even_batches(rows, tutor.processes):
        tutor.step(rows_here, clean)
    return {"steps": tutor.steps, "student": tutor.problem.student.state().params}


def refused(rank: int) -> list[str]:
    """What a process says where another has no batch, and of a wrapper that sums too early."""
    said = []
    try:
        list(even_batches([next(stream())] if rank == 0 else [], Group()))
    except ValueError as error:
        said.append(str(error))
    try:
        with batch_norm_over(Group(sync_batch_norm=True)):
            nn.BatchNorm1d(2)(torch.ones(1 - rank, 2))
    except ValueError as error:
        said.append(str(error))
    alone = [dist.new_group([number]) for number in range(2)][rank]
    try:
        with batch_norm_over(Group()):
            nn.SyncBatchNorm(2, process_group=alone)(torch.ones(2, 2))
    except UnsupportedStudentError as error:
        said.append(str(error))
    student, processes = wrapped(build("branches"), "sync")
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), Plain(), processes=processes)
    try:
        tutor.step(part(next(stream()), 4, rank))
    except UnsupportedStudentError as error:
        said.append(str(error))
    student = DistributedDataParallel(build("relu network"), static_graph=True)
    teacher = InputWeigher().double()
    optimizer, learner = SGD(student.parameters(), lr=0.1), SGD(teacher.parameters(), lr=0.1)
    signal = Lookahead(mode="restep")
    tutor = Tutor(student, optimizer, teacher, learner, signal=signal)
    try:
        tutor.step(next(stream()), next(stream()))
    except UnsupportedStudentError as error:
        said.append(str(error))
    try:
        Tutor(nn.Sequential(student), optimizer, Plain())
    except UnsupportedStudentError as error:
        said.append(str(error))
    return said


def statistics(rank: int) -> dict[str, Tensor]:
    """What batch normalisation has counted up, a few rows at a time, by its next pass."""
    student = DistributedDataParallel(build("batch norm"))
    tutor = Tutor(student, SGD(student.parameters(), lr=0.1), Plain(), micro_batch=2)
    batches = stream()
    for _ in range(3):
        tutor.step(part(next(batches), 4, rank))
    student(next(batches).inputs)
    return dict(student.named_buffers())


def aligned(rank: int | None) -> dict[str, Any]:
    """Weights [L, 3] of three steps by held-out gradients, and the student after."""
    student, processes = build("norms"), None
    if rank is not None:
        student, processes = wrapped(student, "sync")
    optimizer = SGD(student.parameters(), lr=0.1)
    tutor, batches, weights = (
        Tutor(student, optimizer, Aligned(), processes=processes),
        stream(),
        [],
    )
    for _ in range(LONG):
        batch, held_out = next(batches), next(batches)
        if rank is not None:
            batch, held_out = part(batch, 4, rank), part(held_out, 2, rank)
        weights.append(tutor.step(batch, held_out).weights)
    return {"student": tutor.problem.student.state().params, "weights": torch.stack(weights, 1)}


def normalised_alike(rank: int | None) -> list[dict[str, Any]]:
    """Batch normalisation of inputs far from zero: outputs, gradients and statistics."""
    own = slice(None) if rank is None else slice(0, 5) if rank == 0 else slice(5, None)
    processes, found = SingleProcess() if rank is None else Group(sync_batch_norm=True), []
    for dtype, sides in ((torch.float32, ()), (torch.float32, (3,)), (torch.bfloat16, (2, 2))):
        torch.manual_seed(0)
        x = (torch.randn(8, 4, *sides) * 3 + 200).to(dtype)[own].requires_grad_()
        target = torch.randn(8, 4, *sides)[own]
        norm = (nn.BatchNorm1d if len(sides) < 2 else nn.BatchNorm2d)(4)
        with batch_norm_over(processes), torch.autocast("cpu", enabled=dtype != torch.float32):
            out = norm(x)
            (out.float() * target).sum().backward()
        norm.eval()
        with batch_norm_over(processes):  # no process waits for another in evaluation mode
            evaluated = norm(x.float()) if rank != 1 else target
        values = {"out": out.detach(), "x": x.grad, "evaluated": evaluated.detach()}
        grads = {k: p.grad for k, p in norm.named_parameters() if p.grad is not None}
        sums = processes.all_reduce_params(grads)
        found.append({"rows": values, "sums": sums, "statistics": dict(norm.named_buffers())})
    return found


def by_own_rows(rank: int) -> Tensor:
    """Batch normalisation without ``sync_batch_norm`` of two rows that each process has."""
    with batch_norm_over(Group()):
        return nn.BatchNorm1d(1)(torch.tensor([[5.0 * rank], [5.0 * rank + 2]])).detach()


def overflowing(rank: int, wrapper: str) -> dict[str, Any]:
    """A scaled step of which one process alone sees the numbers that are too large."""
    student, processes = wrapped(build("relu network"), wrapper)
    teacher, scaler = InputWeigher().double(), GradScaler("cpu", init_scale=2.0**10)
    tutor = Tutor(
        student,
        SGD(student.parameters(), lr=0.1),
        teacher,
        SGD(teacher.parameters(), lr=0.1),
        signal=Lookahead(),
        step_strategy=AmpStep(scaler),
        processes=processes,
    )
    batches = stream()
    for size in (1.0, 1e308, 1.0):
        batch, held_out = next(batches), part(next(batches), 3, rank)
        if rank == 1:
            batch = batch._replace(inputs=batch.inputs * size)
        tutor.step(batch, held_out)
    state = tutor.problem.student.state().params
    told = scaler.get_scale(), tutor.skipped_teacher_steps
    return {"student": state, "teacher": dict(teacher.state_dict()), "told": told}


def messages() -> dict[str, int]:
    """Sums of more than a few numbers in a plain step, and in one with a look."""
    counted: list[int] = []
    before = dist.all_reduce

    def counting(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        counted.append(x.numel())
        return before(x, *args, **kwargs)

    student = DistributedDataParallel(build("relu network"))
    teacher = InputWeigher().double()
    optimizer, learner = SGD(student.parameters(), lr=0.1), SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(
        student,
        optimizer,
        teacher,
        learner,
        signal=Lookahead(evaluate_on="next"),
        teacher_every=2,
    )
    batches, found = stream(), {}
    dist.all_reduce = counting
    try:
        # the first estimate is checked by taking its step again, with another sum
        for name in ("plain", "looked at", "first judging", "looked at", "judging"):
            counted.clear()
            tutor.step(next(batches))
            found[name] = sum(n > 2 for n in counted)
    finally:
        dist.all_reduce = before
    return found


def main(rank: int, store: str, out: str) -> None:
    """Run all cases and write down what came of them."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    found: dict[str, Any] = {name: trained(case, rank) for name, case in cases()}
    found |= {"ending": ending(rank), "refused": refused(rank), "messages": messages()}
    found |= {"statistics": statistics(rank), "aligned": aligned(rank)}
    found |= {"normalised": normalised_alike(rank), "by own rows": by_own_rows(rank)}
    found |= {f"overflow {how}": overflowing(rank, how) for how in ("ddp", "none", "fsdp")}
    torch.save(found, out)
    dist.destroy_process_group()

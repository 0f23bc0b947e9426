"""Through a whole run: ten weights, one per class, judged by the student at the end.

The student has two blocks of convolution, ReLU and pooling (20,490 parameters) and sees batches
of 8 images of 28x28; the held-out batch has 64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from benchmarks.command import size
from benchmarks.hypergradients.measure import Build, Case, Once
from tutelage.bilevel import BilevelProblem
from tutelage.functional.student import StudentView
from tutelage.losses.objectives import cross_entropy
from tutelage.signals import Replayed, Reversible, TrajectorySignal, Unrolled
from tutelage.training.loops import planned_steps
from tutelage.types import Batch, Observation, Params, PreparedBatch

RATE = 1e-3
HELD_OUT, PIXELS = size(64, 4), size(28, 8)


def adam(student: nn.Module) -> Optimizer:
    """The optimiser of the first group of variants.

    Args:
        student: The student.

    Returns:
        Its optimiser.
    """
    return Adam(student.parameters(), RATE)


def momentum(student: nn.Module) -> Optimizer:
    """The optimiser of the second group.

    Args:
        student: The student.

    Returns:
        Its optimiser.
    """
    return SGD(student.parameters(), 0.02, momentum=0.9)


class ClassWeights(nn.Module):
    """One learned weight per class."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.linspace(-1, 1, 10))

    def weigh(self, prepared: PreparedBatch, _: Observation) -> Tensor:
        """Look the weights up.

        Args:
            prepared: What the student saw.

        Returns:
            Weights [L].
        """
        return torch.sigmoid(self.logits)[prepared.targets]


@dataclass
class Run:
    """The student, its data and its teacher, the same for every variant."""

    student: nn.Module
    logits: nn.Parameter
    inputs: Tensor
    targets: Tensor
    held_inputs: Tensor
    held_targets: Tensor

    def loss(self, student: Callable[[Tensor], Tensor], step: int) -> Tensor:
        """The taught loss, for the variants that are not ours.

        Args:
            student: The student, as that library calls it.
            step: Which one.

        Returns:
            A scalar.
        """
        losses = F.cross_entropy(
            student(self.inputs[step]), self.targets[step], reduction="none"
        )
        return (torch.sigmoid(self.logits)[self.targets[step]] * losses).mean()

    def held_out_loss(self, student: Callable[[Tensor], Tensor]) -> Tensor:
        """The loss that judges.

        Args:
            student: The student, as that library calls it.

        Returns:
            A scalar.
        """
        return F.cross_entropy(student(self.held_inputs), self.held_targets)


def run_of(steps: int, dtype: torch.dtype) -> Run:
    """Models and data, drawn from fixed seeds.

    Args:
        steps: Steps of the run.
        dtype: Of all numbers.

    Returns:
        The run.
    """
    torch.manual_seed(0)
    student = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * PIXELS**2, 10),
    )
    inputs, targets = torch.randn(steps, 8, 1, PIXELS, PIXELS), torch.randint(10, (steps, 8))
    held_inputs = torch.randn(HELD_OUT, 1, PIXELS, PIXELS)
    held_targets = torch.randint(10, (HELD_OUT,))
    logits = nn.Parameter(ClassWeights().logits.detach().to(dtype))
    return Run(
        student.to(dtype),
        logits,
        inputs.to(dtype),
        targets,
        held_inputs.to(dtype),
        held_targets,
    )


def plain(make: Callable[[nn.Module], Optimizer], steps: int, dtype: torch.dtype) -> Once:
    """Training by torch.optim, and the gradient of the held-out loss; no hypergradient.

    Args:
        make: The optimiser.
        steps: Steps of the run.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    run = run_of(steps, dtype)
    run.logits.requires_grad_(False)
    optimizer = make(run.student)

    def once() -> None:
        for step in range(steps):
            optimizer.zero_grad()
            run.loss(run.student, step).backward()
            optimizer.step()
        optimizer.zero_grad()
        run.held_out_loss(run.student).backward()

    return once


def ours(
    signal: TrajectorySignal,
    make: Callable[[nn.Module], Optimizer],
    steps: int,
    dtype: torch.dtype,
) -> Once:
    """One of our signals.

    Args:
        signal: The signal.
        make: The optimiser.
        steps: Steps of the run.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    run = run_of(steps, dtype)
    teacher, ids = ClassWeights().to(dtype), torch.arange(max(8, HELD_OUT))
    problem = BilevelProblem(
        StudentView(run.student, make(run.student)), teacher, cross_entropy
    )
    batches = [Batch(x, y, ids[:8]) for x, y in zip(run.inputs, run.targets, strict=True)]
    taken = planned_steps(problem.student, batches, 0)
    start = problem.student.snapshot()
    held_out = Batch(run.held_inputs, run.held_targets, ids[:HELD_OUT])

    def once() -> Tensor:
        phi: Params = dict(teacher.named_parameters())
        return signal.estimate_run(problem, phi, start, taken, held_out)[0].grad["logits"]

    return once


def with_higher(steps: int, dtype: torch.dtype) -> Once:
    """The peer ``higher``, Adam.

    Args:
        steps: Steps of the run.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    higher, run = import_module("higher"), run_of(steps, dtype)
    optimizer = adam(run.student)

    def once() -> Tensor:
        context = higher.innerloop_ctx(run.student, optimizer, copy_initial_weights=True)
        with context as (student, differentiable):
            for step in range(steps):
                differentiable.step(run.loss(student, step))
            return torch.autograd.grad(run.held_out_loss(student), run.logits)[0]

    return once


def with_torchopt(steps: int, dtype: torch.dtype) -> Once:
    """The peer ``torchopt``, MetaAdam.

    Args:
        steps: Steps of the run.
        dtype: Of all numbers.

    Returns:
        What does it once.
    """
    torchopt, run = import_module("torchopt"), run_of(steps, dtype)
    start = torchopt.extract_state_dict(run.student, by="deepcopy")

    def once() -> Tensor:
        torchopt.recover_state_dict(run.student, start)
        # without eps_root its derivative is not a number where a gradient is zero
        optimizer = torchopt.MetaAdam(
            run.student, lr=RATE, eps_root=1e-16, use_accelerated_op=True
        )
        for step in range(steps):
            optimizer.step(run.loss(run.student, step))
        grad = torch.autograd.grad(run.held_out_loss(run.student), run.logits)[0]
        torchopt.stop_gradient(run.student)
        return grad

    return once


def adam_case(steps: int, rounds: int) -> Case:
    """Adam.

    Args:
        steps: Steps of the run.
        rounds: Rounds at most.

    Returns:
        The case; what keeps every graph only up to 400 steps.
    """
    peers: dict[str, Build] = {
        "higher": partial(with_higher, steps),
        "torchopt MetaAdam": partial(with_torchopt, steps),
    }
    unrolled: dict[str, Build] = {"Unrolled": partial(ours, Unrolled(steps), adam, steps)}
    exact = Unrolled(steps) if steps <= 400 else Replayed(steps)
    return Case(
        unit="plain Adam",
        reference=partial(ours, exact, adam, steps),
        variants={
            "plain Adam": partial(plain, adam, steps),
            **(peers if steps <= 400 else {}),
            **(unrolled if steps <= 400 else {}),
            "Replayed, sqrt": partial(ours, Replayed(steps, "sqrt"), adam, steps),
            "Replayed, log": partial(ours, Replayed(steps, "log"), adam, steps),
            **{
                f"Replayed, {budget}": partial(
                    ours, Replayed(steps, budget=budget), adam, steps
                )
                for budget in ("32 MB", "64 MB", "128 MB")
            },
        },
        rounds=rounds,
    )


def momentum_case(steps: int, rounds: int) -> Case:
    """Momentum SGD.

    Args:
        steps: Steps of the run.
        rounds: Rounds at most.

    Returns:
        The case.
    """
    return Case(
        unit="plain momentum SGD",
        reference=partial(ours, Unrolled(steps), momentum, steps),
        variants={
            "plain momentum SGD": partial(plain, momentum, steps),
            "Unrolled": partial(ours, Unrolled(steps), momentum, steps),
            "Reversible, exact": partial(ours, Reversible(steps, exact=True), momentum, steps),
        },
        rounds=rounds,
    )

"""A step whose rows the student sees a few at a time: gradient accumulation."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import is_sharded
from tutelage.distributed.wrappers import data_parallel
from tutelage.functional.module_state import ModuleState, on_state, state_of
from tutelage.functional.replay_context import clone_rows, replay_context
from tutelage.losses.objectives import losses_of
from tutelage.signals.products import Alignment
from tutelage.teacher import drop_below_of, is_deep
from tutelage.training.forward import ForwardPass, run_forward
from tutelage.types import Lesson, Step


def forward_without_graph(
    problem: BilevelProblem,
    student: nn.Module,
    step: Step,
    lesson: Lesson,
    alignments: Tensor | None = None,
    student_lesson: Lesson | None = None,
) -> ForwardPass:
    """A forward pass without a graph, for all rows' losses and weights.

    A weight may count by what the other rows' are, so no micro-batch's share of the loss can be
    told before all have been seen. ``shares`` gives the gradient.
    """
    kept = clone_rows(lesson) if student_lesson is None or student_lesson is lesson else lesson
    with torch.no_grad(), starting_state(problem, student) as states:
        forward_pass = run_forward(
            problem, student, step, kept, alignments, student_lesson or lesson
        )
    return forward_pass._replace(before=states[-1])


@contextmanager
def starting_state(problem: BilevelProblem, student: nn.Module) -> Iterator[list[ModuleState]]:
    """Find the state from which a student starts its passes."""
    module, states = problem.student.module, []
    states.append(state_of(module))
    if data_parallel(student) is None:
        yield states
        return

    def after_broadcast(_module: nn.Module, _args: object) -> None:
        if len(states) == 1:
            states.append(state_of(module))

    handle = module.register_forward_pre_hook(after_broadcast, prepend=True)
    try:
        yield states
    finally:
        handle.remove()


def micro_batch_losses(
    problem: BilevelProblem, student: nn.Module, step: Step, forward_pass: ForwardPass
) -> Iterator[Tensor]:
    """Each micro-batch's share of a step's loss, by a second pass that draws the same.

    It starts from the buffers that the first one started from, and leaves those alone that the
    first one left.
    """
    losses = forward_pass.observation.losses.detach().requires_grad_()
    with torch.enable_grad():
        whole = problem.reduce(losses, forward_pass.weights, forward_pass.lesson)
    (counts,) = torch.autograd.grad(whole, losses)
    done, state = 0, forward_pass.before
    assert state is not None
    for number, rows in enumerate(problem.micro_batches(forward_pass.lesson)):
        part, seed = clone_rows(rows), problem.local_seed(step.batch.seed + 1, number)
        with replay_context(part, seed), on_state(problem.student.module, state):
            found = losses_of(problem.objective, student(part.inputs), part)
        yield (counts[done : done + len(found)] * found).sum()
        done += len(found)


@contextmanager
def no_gradient_sync(student: nn.Module) -> Iterator[None]:
    """Leave the gradients of several processes apart, to be summed once, after all passes."""
    wrapper = data_parallel(student)
    if wrapper is None:
        yield
        return
    with wrapper.no_sync():
        yield
    # it sends running statistics before the first pass after a sum, which has come by now
    wrapper.require_forward_param_sync = True


def require_micro_batch(
    problem: BilevelProblem, student: nn.Module, *, tries: bool, product: object = None
) -> None:
    """Refuse what cannot be done a few rows at a time."""
    if problem.micro_batch is None:
        return
    if problem.micro_batch < 1:
        raise ValueError(f"micro_batch must be at least 1, got {problem.micro_batch}.")
    name = type(problem.teacher).__name__
    summed = problem.processes.averages and data_parallel(student) is None
    ghost = isinstance(product, Alignment) and product.method == "ghost"
    deep = f"{name} keeps the path from weights to the student, so it needs a graph of all rows"
    reasons = {
        deep: is_deep(problem.teacher),
        f"{name} leaves rows out by drop_below": drop_below_of(problem.teacher) > 0,
        "the signal tries each step before it is taken": tries,
        "Alignment('ghost') reads one pass over all rows; 'forward' does not": ghost,
        "the student is sharded": is_sharded(problem.student.module),
        "a wrapper around the student's own sums gradients": summed,
    }
    for reason, true in reasons.items():
        if true:
            raise ValueError(f"micro_batch={problem.micro_batch} does not work here: {reason}.")

"""Gradient accumulation: a step whose rows the student sees a few at a time."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import is_sharded
from tutelage.distributed.groups import Processes
from tutelage.distributed.reduce import all_reduce_grads
from tutelage.distributed.wrappers import data_parallel
from tutelage.functional.module_state import ModuleState, on_state, state_of
from tutelage.functional.replay_context import clone_rows, replay_context
from tutelage.functional.trees import plus
from tutelage.losses.objectives import losses_of
from tutelage.signals.products import Alignment
from tutelage.teacher import drop_below_of, is_deep
from tutelage.training.forward import ForwardPass, run_forward
from tutelage.training.step_strategy import StepStrategy
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

    A row's weight may depend on all other rows, so that no micro-batch's share of the loss is
    known before all have passed. ``micro_batch_losses`` gives the gradient.
    """
    student_lesson = student_lesson or lesson
    kept = clone_rows(lesson) if student_lesson is lesson else lesson
    with torch.no_grad(), starting_state(problem, student) as states:
        forward_pass = run_forward(problem, student, step, kept, alignments, student_lesson)
    return forward_pass._replace(before=states[-1])


@contextmanager
def starting_state(problem: BilevelProblem, student: nn.Module) -> Iterator[list[ModuleState]]:
    """Copy the buffers and attributes from which the student starts its passes."""
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
    """Each micro-batch's share of the loss, by a second pass with the same random numbers.

    It starts from the same buffers as the first pass, and does not update them a second time.
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


def backward_micro_batches(
    problem: BilevelProblem,
    student: nn.Module,
    step: Step,
    forward_pass: ForwardPass,
    strategy: StepStrategy,
    processes: Processes,
) -> None:
    """Leave the sum of all micro-batches' gradients in ``.grad``, summed over processes."""
    params, optimizer, total = problem.student.params, problem.student.optimizer, {}
    with no_gradient_sync(student):
        for loss in micro_batch_losses(problem, student, step, forward_pass):
            optimizer.zero_grad(set_to_none=True)
            strategy.backward(loss, optimizer, retain_graph=False)
            grads = {k: p.grad for k, p in params.items() if p.grad is not None}
            total = {**grads, **plus(total, grads)}
    for name, grad in total.items():
        params[name].grad = grad
    all_reduce_grads(processes, params.values())


@contextmanager
def no_gradient_sync(student: nn.Module) -> Iterator[None]:
    """Do not sum gradients over processes inside; that is done once, after all passes."""
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
    """Refuse what does not work in micro-batches."""
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

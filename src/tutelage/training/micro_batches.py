"""Gradient accumulation: a step whose rows the student sees a few at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from tutelage.bilevel import BilevelProblem
from tutelage.distributed.fsdp import is_sharded
from tutelage.distributed.reduce import all_reduce_grads
from tutelage.distributed.wrappers import data_parallel
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.module_state import (
    ModuleState,
    modes_kept,
    on_state,
    state_kept,
    state_of,
)
from tutelage.functional.replay_context import clone_rows, replay_context, split_rows
from tutelage.functional.student import in_full_precision
from tutelage.functional.trees import plus
from tutelage.losses.objectives import losses_of
from tutelage.per_example.units import synchronises_batch_norm, uses_batch_statistics
from tutelage.precision import FULL
from tutelage.randomness import seeded_generators
from tutelage.teacher import drop_below_of, is_attached
from tutelage.training.forward import ForwardPass, PreparedStep, run_forward
from tutelage.training.step_strategy import StepStrategy
from tutelage.types import PreparedBatch, Step

FAILURES = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)
"""what a probe may raise on fewer rows"""


def forward_without_graph(
    problem: BilevelProblem,
    student: nn.Module,
    prepared_step: PreparedStep,
    alignments: Tensor | None = None,
) -> ForwardPass:
    """A forward pass without a graph, for all rows' losses and weights.

    A row's weight may depend on all other rows, so that no micro-batch's share of the loss is
    known before all have passed. ``micro_batch_losses`` gives the gradient.
    """
    if prepared_step.rows is prepared_step.prepared:
        prepared_step = prepared_step._replace(prepared=clone_rows(prepared_step.prepared))
    with torch.no_grad(), starting_state(problem, student) as states:
        forward_pass = run_forward(problem, student, prepared_step, alignments)
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
    problem: BilevelProblem, student: nn.Module, forward_pass: ForwardPass
) -> Iterator[Tensor]:
    """Each micro-batch's share of the loss, by a second pass with the same random numbers.

    It starts from the same buffers as the first pass, and does not update them a second time.
    """
    losses = forward_pass.observation.losses.detach().requires_grad_()
    with torch.enable_grad():
        whole = problem.reduce(losses, forward_pass.weights, forward_pass.prepared)
    (counts,) = torch.autograd.grad(whole, losses)
    done, state, seed = 0, forward_pass.before, forward_pass.step.batch.seed
    assert state is not None
    for number, rows in enumerate(problem.micro_batches(forward_pass.prepared)):
        part, own = clone_rows(rows), problem.local_seed(seed + 1, number)
        with (
            replay_context(part, own),
            on_state(problem.student.module, state),
            state_kept(problem.objective),  # the first pass has changed it
        ):
            found = losses_of(problem.objective, student(part.inputs), part)
        yield (counts[done : done + len(found)] * found).sum()
        done += len(found)


def require_separate_rows(problem: BilevelProblem, prepared: PreparedBatch, step: Step) -> bool:
    """Raise if the loss of a row depends on the other rows of its micro-batch.

    Rows of one micro-batch are evaluated together and in two halves, in full precision, on
    copies of the buffers. Where the student draws random numbers or takes batch statistics, it
    is evaluated in evaluation mode; where it still draws, or fails, nothing is known.

    Returns:
        Whether this was checked: a batch of one micro-batch shows nothing.
    """
    assert problem.micro_batch is not None
    if len(prepared.ids) <= problem.micro_batch:
        return False
    rows = split_rows(prepared._replace(autocast=FULL), max(2, problem.micro_batch))[0]
    whole, module, found = replace(problem, micro_batch=None), problem.student.module, None
    for mode in (nullcontext, evaluation_mode):
        kept = state_kept(problem.objective)
        with torch.no_grad(), seeded_generators() as seed_all, mode(module), kept:
            if found is None and not any(map(uses_batch_statistics, module.modules())):
                with suppress(*FAILURES):
                    found = _rows_depend(whole, rows, step, seed_all)
    if found:
        raise UnsupportedStudentError(
            f"micro_batch={problem.micro_batch} does not work here: the loss of a row depends "
            "on the other rows of its batch, as with an objective of pairs or attention over "
            "the batch, so that another student would be trained. Leave micro_batch away."
        )
    return True


def _rows_depend(
    problem: BilevelProblem, rows: PreparedBatch, step: Step, seed_all: Callable[[int], None]
) -> bool | None:
    # whether the losses of halves differ from those of the whole; None: they are random
    state = in_full_precision(problem.student.state())

    def losses(part: PreparedBatch, seed: int) -> Tensor:
        seed_all(seed)
        own = step._replace(batch=step.batch._replace(seed=seed))
        return problem.observe(state, part, own)[0].losses

    whole, again = losses(rows, 0), losses(rows, 1)
    # convolutions on a GPU round to ten bits
    rounding = torch.finfo(whole.dtype).eps ** (0.25 if whole.is_cuda else 0.5)
    close = partial(torch.allclose, rtol=rounding, atol=rounding, equal_nan=True)
    if not close(whole, again):
        return None
    halves = split_rows(rows, (len(rows.ids) + 1) // 2)
    return not close(whole, torch.cat([losses(half, 0) for half in halves]))


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put all parts of a module into evaluation mode inside, without calling ``eval``."""
    with modes_kept(module):
        for part in module.modules():
            part.training = False
        yield


def backward_micro_batches(
    problem: BilevelProblem,
    student: nn.Module,
    forward_pass: ForwardPass,
    strategy: StepStrategy,
) -> None:
    """Leave the sum of all micro-batches' gradients in ``.grad``, summed over processes."""
    params, optimizer, total = problem.student.params, problem.student.optimizer, {}
    with no_gradient_sync(student):
        for loss in micro_batch_losses(problem, student, forward_pass):
            optimizer.zero_grad(set_to_none=True)
            strategy.backward(loss, optimizer, retain_graph=False)
            grads = {k: p.grad for k, p in params.items() if p.grad is not None}
            total = {**grads, **plus(total, grads)}
    for name, grad in total.items():
        params[name].grad = grad
    all_reduce_grads(problem.processes, params.values())


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


def require_micro_batch(problem: BilevelProblem, student: nn.Module) -> None:
    """Refuse what does not work in micro-batches."""
    if problem.micro_batch is None:
        return
    if problem.micro_batch < 1:
        raise ValueError(f"micro_batch must be at least 1, got {problem.micro_batch}.")
    name = type(problem.teacher).__name__
    summed = problem.processes.averages and data_parallel(student) is None
    path = f"{name} keeps the path from weights to the student, so it needs a graph of all rows"
    reasons = {
        path: is_attached(problem.teacher),
        f"{name} leaves rows out by drop_below": drop_below_of(problem.teacher) > 0,
        "the student is sharded": is_sharded(problem.student.module),
        "a wrapper around the student's own sums gradients": summed,
        "batch normalisation is by the rows of all processes": synchronises_batch_norm(
            problem.processes, problem.student.module
        ),
    }
    for reason, true in reasons.items():
        if true:
            raise ValueError(f"micro_batch={problem.micro_batch} does not work here: {reason}.")

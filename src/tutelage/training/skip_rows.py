"""A step whose backward pass skips the rows with the smallest gradients."""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm  # the base of all of them

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.module_state import on_state, state_of
from tutelage.functional.replay_context import clone_rows, detach, replay_context
from tutelage.losses.objectives import losses_of
from tutelage.teacher import drop_below_of, taps_of, uses_alignments
from tutelage.training.forward import ForwardPass, PreparedStep, apply_weights, run_forward
from tutelage.types import Observation

_FEWEST = 2
"""rows of a pass: batch normalisation cannot treat a single one"""


def forward_or_skip_rows(
    problem: BilevelProblem,
    student: nn.Module,
    prepared_step: PreparedStep,
    alignments: Tensor | None = None,
) -> ForwardPass:
    """A forward pass; with ``drop_below``, a cheaper one with almost the same gradient.

    All rows are seen in one pass without a graph, which gives losses, weights and the gradient
    ``g_i`` of the loss with respect to each row's logits. Rows with the smallest ``|g_i|`` are
    dropped as long as their ``|g_i|`` sum up to at most ``drop_below`` of that of all rows, and
    ``sum_i J_i^T g_i`` is taken over the others by a second forward and a backward pass. What
    is left out is at most ``drop_below`` times the sum of all ``|g_i|`` times the largest norm
    of a row's Jacobian ``J_i``. It pays where fewer than two thirds of the rows are kept.

    Note: without batch normalisation the kept rows' part of the gradient is exact. Batch
    normalisation in training mode normalises the first pass, so losses, weights and running
    statistics, by all rows as an ordinary step does, but the second pass by the kept rows'
    own statistics, in whose gradient dropped rows have no part: the gradient is another one
    then, and ``drop_below`` is no bound of how far off it is.
    """
    teacher = problem.teacher
    share = drop_below_of(teacher)
    if not share or taps_of(teacher) or uses_alignments(teacher):
        return run_forward(problem, student, prepared_step, alignments)
    (step, prepared, rows), batch = prepared_step, prepared_step.step.batch
    prepared = clone_rows(prepared) if rows is prepared else prepared
    with replay_context(batch, problem.local_seed(batch.seed + 1)), torch.no_grad():
        before = state_of(problem.student.module)
        outputs = student(rows.inputs)
    if not isinstance(outputs, Tensor):
        raise UnsupportedStudentError(
            f"A student that gives a {type(outputs).__name__} has no single gradient of each "
            "row's logits: leave drop_below at 0."
        )
    logits = outputs.detach().requires_grad_()
    with replay_context(batch, problem.local_seed(batch.seed + 1)):
        losses = losses_of(problem.objective, logits, prepared)
    forward_pass = apply_weights(
        problem, step, prepared, Observation(losses, logits, {}, step.progress)
    )
    (d_logits,) = torch.autograd.grad(forward_pass.loss, logits)
    kept, left_out = rows_above_share(d_logits.flatten(1).norm(dim=1), share)
    with (
        replay_context(batch, problem.local_seed(batch.seed + 1)),
        on_state(problem.student.module, before),
    ):
        again = student(prepared.inputs[kept])
    _require_same(problem.student.module, again, outputs[kept])
    moved = (again * d_logits[kept]).sum()
    loss = forward_pass.loss.detach() + moved - moved.detach()
    return forward_pass._replace(
        observation=detach(forward_pass.observation), loss=loss, left_out=left_out
    )


def rows_above_share(
    mass: Float[Tensor, "L"], drop_below: float
) -> tuple[Int64[Tensor, "M"], Float[Tensor, ""]]:
    """All rows but the smallest ones that together have at most a share of the mass."""
    values, order = mass.double().sort(stable=True)
    sums = values.cumsum(0) / values.sum().clamp(min=torch.finfo(values.dtype).tiny)
    dropped = int((sums <= drop_below).sum())  # none where a row's mass is not a number
    dropped = max(0, min(dropped, len(mass) - _FEWEST))
    left_out = sums[dropped - 1] if dropped else torch.zeros_like(sums.sum())
    return order[dropped:].sort().values, left_out.to(mass.dtype)


def _require_same(module: nn.Module, again: Tensor, before: Tensor) -> None:
    if any(isinstance(m, _BatchNorm) and m.training for m in module.modules()):
        return  # normalised by other rows
    rounding = torch.finfo(again.dtype).eps ** 0.5
    found = again.detach()
    if not torch.allclose(found, before, rtol=rounding, atol=rounding, equal_nan=True):
        off = float((found - before).abs().max())
        raise UnsupportedStudentError(
            f"{type(module).__name__} gives some rows of a batch other logits than the whole "
            f"batch has (by up to {off:.3g}), as dropout makes it: switch that off, or leave "
            "drop_below at 0."
        )

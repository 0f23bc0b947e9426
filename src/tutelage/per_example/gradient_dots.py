"""``gradient_dots``: per-example products by one call."""

from collections.abc import Callable, Collection
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from tutelage.errors import UnsupportedStudentError, require_known
from tutelage.functional.differentiable import original
from tutelage.functional.module_state import attributes_kept
from tutelage.functional.replay_context import clone_rows
from tutelage.functional.student import evaluate
from tutelage.functional.trees import detached, leaves
from tutelage.losses.objectives import cross_entropy, losses_of
from tutelage.per_example.coupling import couples_rows
from tutelage.per_example.finite_difference import central_dots
from tutelage.per_example.forward import Losses, forward_dots
from tutelage.per_example.recorder import Recorder
from tutelage.per_example.recording import Recording
from tutelage.per_example.units import selected, without_padding
from tutelage.randomness import seeded
from tutelage.types import Batch, Params
from tutelage.validation.shapes import require_batch, require_tensors

Method = Literal["auto", "ghost", "forward", "difference"]


def gradient_dots(
    student: nn.Module,
    batch: Batch,
    direction: Params,
    *,
    method: Method = "auto",
    layers: Collection[str] | None = None,
    objective: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> Tensor:
    """``r_i = <d l_i / d theta, g>`` for every example of a batch.

    On the scale of the sum of the losses: independent of the batch's size.

    * ``"ghost"`` reads them off the layers' inputs and output gradients of one ordinary pass;
      exact. With batch normalisation in training mode it is row i's share of the batch's
      gradient instead: the same sum over i, but another quantity.
    * ``"forward"`` differentiates the losses along g in forward mode; exact for every student,
      the path through batch statistics included.
    * ``"difference"`` takes two forward passes at ``theta +- e g``; inexact, hardly any memory.
    * ``"auto"`` takes ``"forward"`` where a batch normalisation is in training mode, else
      ``"ghost"``, with ``"forward"`` for parameters that are used outside of any layer.

    Args:
        student: The student, in the mode in which its losses are meant; left as it is.
        batch: B examples; ``batch.seed`` draws the dropout.
        direction: g, by the student's parameter names; a missing one counts as zero.
        method: See above.
        layers: Names of the modules whose parameters count; None: all.
        objective: Logits and targets to losses [B].

    Returns:
        [B].

    Note: raises ``UsageError`` where a method, layer or parameter is unknown, no parameter is
    left, or what is given is no tensor; ``"ghost"`` ``UnsupportedStudentError`` where it cannot
    see a parameter's use.

    Source: Gradient-alignment reward, section 3; Goodfellow 2015 for the linear layer.
    """
    require_known("There is no method", method, get_args(Method))
    batch, student = require_batch("batch", batch), original(student)
    names = selected(student, layers)
    g = without_padding(student, direction_for(student, direction, names))
    own = detached({k: p for k, p in student.named_parameters() if k in names})

    def losses(params: Params) -> Tensor:
        rows = clone_rows(batch)
        with seeded(batch.seed, batch.inputs.device), attributes_kept(student):
            buffers = dict(student.named_buffers())
            logits, _, _ = evaluate(student, params, buffers, rows.inputs)
        return losses_of(objective, logits, rows)

    if method == "difference":
        return central_dots(losses, own, g)
    if method == "forward" or (method == "auto" and couples_rows(student)):
        return forward_dots(losses, own, g)
    recording = record_gradients(student, losses, own, layers, len(batch.ids))
    if method == "ghost":
        return recording.dots(g, recording.ones())
    return dots_or_forward(recording, losses, own, g)


def direction_for(student: nn.Module, direction: Params, names: Collection[str]) -> Params:
    """The part of a direction for some parameters, in their dtypes."""
    own = dict(student.named_parameters())
    require_tensors("A direction", **direction)
    for name in direction:
        require_known("The student has no parameter", name, own)
    return {k: v.detach().to(own[k].dtype) for k, v in direction.items() if k in names}


def record_gradients(
    student: nn.Module,
    losses: Losses,
    params: Params,
    layers: Collection[str] | None,
    rows: int,
) -> Recording:
    """Record a forward and backward pass of the sum of the losses."""
    theta = leaves(params)
    recorder = Recorder(student, layers=layers)
    with torch.enable_grad(), recorder.record(rows, theta, verified=True) as recording:
        found = losses(theta)
        recording.verify(found)
        torch.autograd.grad(found.sum(), list(theta.values()), allow_unused=True)
    return recording


def dots_or_forward(
    recording: Recording, losses: Losses, params: Params, direction: Params
) -> Tensor:
    """Products [B] from a recording, by forward mode for parameters it does not cover."""
    unseen = {k: direction[k] for k in recording.uncovered if k in direction}
    seen = {k: v for k, v in direction.items() if k not in unseen}
    try:
        read = recording.dots(seen, recording.ones())
    except UnsupportedStudentError:
        return forward_dots(losses, params, direction)
    return read + forward_dots(losses, params, unseen) if unseen else read

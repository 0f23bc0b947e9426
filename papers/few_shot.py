"""Learning where a student starts, so that a few steps on a few examples are enough.

The start is one more set of parameters outside of the student's own steps, beside the
teacher's: a signal's adjoint, carried back to before the first step, is its gradient.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from papers.data.few_shot.episodes import Episode
from tutelage.bilevel import BilevelProblem
from tutelage.errors import UsageError
from tutelage.functional.module_state import attributes_kept
from tutelage.functional.replay_context import clone_rows
from tutelage.functional.student import in_full_precision
from tutelage.losses.reduction import counts_of
from tutelage.losses.targets import correct_predictions
from tutelage.precision import FULL, autocast_now, autocast_to
from tutelage.randomness import mixed_seed
from tutelage.signals import InitialGradientSignal
from tutelage.training.loops import planned_steps
from tutelage.training.teacher_buffers import require_no_memory
from tutelage.training.teacher_update import step_if_finite
from tutelage.types import Batch, HeldOutLoss, Params, Progress, Step, StudentState

_NORMS = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


class MetaStep(NamedTuple):
    """One step of the start, and of the teacher."""

    number: int
    query_loss: Tensor
    """scalar: mean over the group's tasks, of the students after their steps"""
    skipped: bool
    """whether the gradient was not finite, so that nothing moved"""


def learn_start(
    problem: BilevelProblem,
    optimizer: Optimizer,
    groups: Iterable[Sequence[Episode]],
    *,
    steps: int,
    signal: InitialGradientSignal,
    seed: int = 0,
) -> Iterator[MetaStep]:
    """Move the student's own parameters, and the teacher's, to where adapted students do well.

    ``theta_K`` is the student after K steps on a task's support set, each on the taught loss;
    the optimiser gets the gradient of ``mean over tasks of L_query(theta_K)`` in ``theta_0``
    and the teacher's parameters.

    Source: Finn et al. 2017, Model-Agnostic Meta-Learning, algorithm 2 (``Unrolled`` or
    ``Replayed``; first order with ``Replayed(K, product=FirstOrder())``); Raghu et al. 2021,
    Teaching with Commentaries, appendix B.3 (with the teacher).
    """
    require_batch_statistics(problem)
    for number, group in enumerate(groups):
        if not group:
            raise UsageError(f"group {number} holds no tasks; allowed: 1 and above.")
        seeds = [mixed_seed(seed, number, place) for place in range(len(group))]
        losses = [
            evaluate_start(problem, episode, signal, steps, seed=own)
            for episode, own in zip(group, seeds, strict=True)
        ]
        moved = _step(problem, optimizer, losses)
        loss = torch.stack([each.loss for each in losses]).mean()
        yield MetaStep(number, loss, skipped=not moved)


def evaluate_start(
    problem: BilevelProblem,
    episode: Episode,
    signal: InitialGradientSignal,
    steps: int,
    *,
    seed: int,
) -> HeldOutLoss:
    """The loss on a task's query set after K steps on its support set, with its gradients."""
    require_no_memory(problem.teacher)
    teacher: Params = {k: p for k, p in problem.teacher.named_parameters() if p.requires_grad}
    taken = adaptation(problem, episode.support, steps, total_steps=steps, seed=seed)
    now = autocast_now(problem.student.device)
    query = episode.query._replace(seed=mixed_seed(seed, steps), autocast=now)
    with autocast_to(FULL, problem.student.device):
        start = in_full_precision(problem.student.state())
        return signal.start_gradient(problem, teacher, start, taken, query)[0]


def adaptation(
    problem: BilevelProblem, support: Batch, steps: int, *, total_steps: int, seed: int
) -> list[Step]:
    """Steps on a support set, all of it in every one."""
    taken = planned_steps(problem.student, [support] * steps, seed)
    return [step._replace(progress=Progress(k / total_steps)) for k, step in enumerate(taken)]


def adapt(problem: BilevelProblem, steps: Sequence[Step]) -> StudentState:
    """The student after some steps from its start, which stays where it is."""
    teacher: Params = dict(problem.teacher.named_parameters())
    state = problem.student.state()
    for step in steps:
        state = problem.step(state, teacher, step)
    return state


@torch.no_grad()
def accuracy(problem: BilevelProblem, state: StudentState, query: Batch) -> float:
    """How many queries a student answers rightly.

    Batch normalisation is by the query set, as in the source.
    """
    require_batch_statistics(problem)
    own = clone_rows(query)
    with attributes_kept(problem.student.module):
        outputs, _, _ = problem.student.evaluate(state.params, state.buffers, own.inputs, ())
    counts = counts_of(problem.objective, query.targets)
    right = correct_predictions(outputs, query.targets, counts)
    return int(right.sum()) / max(len(right), 1)


@torch.no_grad()
def weights_at(problem: BilevelProblem, step: Step) -> Tensor:
    """How much the teacher counts each support example, seen from the student's start."""
    teacher: Params = dict(problem.teacher.named_parameters())
    prepared = problem.prepare(teacher, step.batch)
    seen, _ = problem.observe(problem.student.state(), prepared, step)
    return problem.weights(teacher, prepared, seen, step.batch.seed)


def require_batch_statistics(problem: BilevelProblem) -> None:
    """Refuse a student whose batch normalisation would not be by the batch at hand."""
    for name, part in problem.student.module.named_modules():
        if isinstance(part, _NORMS) and not part.training:
            raise UsageError(
                f"'{name}' of the student is in evaluation mode; allowed: training mode, in "
                "which batch statistics count. Call train() on it."
            )


def _step(problem: BilevelProblem, optimizer: Optimizer, losses: Sequence[HeldOutLoss]) -> bool:
    # whether the gradient was finite
    students = mean_of([loss.student for loss in losses])
    teachers = mean_of([loss.teacher for loss in losses])
    learning = dict(problem.teacher.named_parameters())
    params = {f"student/{k}": problem.student.params[k] for k in students}
    params |= {f"teacher/{k}": learning[k] for k in teachers}
    grads = {f"student/{k}": g for k, g in students.items()}
    return step_if_finite(
        optimizer, params, grads | {f"teacher/{k}": g for k, g in teachers.items()}
    )


def mean_of(grads: Sequence[Params]) -> Params:
    """The mean of gradients."""
    return {k: torch.stack([grad[k] for grad in grads]).mean(0) for k in grads[0]}

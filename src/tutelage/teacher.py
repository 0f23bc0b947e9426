"""What a teacher is: an ``nn.Module`` with optional moments, and traits with defaults.

* ``prepare(batch: Batch) -> Lesson``, before the student's forward pass;
* ``weigh(lesson: Lesson, observation: Observation) -> Tensor [L]``, after it;
* ``grade(lesson: Lesson, observation: Observation) -> Tensor [L]``, after it, too: what the
  student descends in place of the objective's losses, differentiable in the observation;
* ``log_prob(lesson: Lesson, observation: Observation) -> Tensor [B]``, where ``weigh`` samples:
  the log-probability of what it sampled, drawn again from the same random numbers. A teacher
  that samples in ``prepare`` gives it with the lesson; of one that samples in both they are
  added up. Examples' actions are drawn independently of one another;
* ``entropy() -> Tensor``, a scalar: of what it samples, where a signal rewards that;
* ``remember(lesson: Lesson, observation: Observation) -> Params``, after each real step that it
  taught, by the teacher or any part of it: new values for those of its buffers that ``memory``
  names. A step that is taken again sees them as they were (``Progress.memory``); ``prepare``
  and ``entropy`` do not see them.

Traits are plain attributes:

* ``normalise``: the rule of ``tutelage.losses.objectives.weighted_loss``; ``"mean"`` if absent;
* ``taps``: names of the student's modules whose outputs it wants to see; none if absent;
* ``deep``: keep the path from weights to student parameters, ``dw/dtheta``; False if absent,
  unless the teacher grades. Where it is False and weights look at the student, what an earlier
  step does to later weights has no part in a hypergradient;
* ``at_test``: ``prepare`` belongs to prediction too (masks do); False if absent;
* ``uses_progress``: what it does depends on ``Progress``; False if absent;
* ``uses_alignments``: what it does depends on ``Observation.alignments``, for which the tutor
  needs a held-out batch at every step; False if absent;
* ``drop_below``: the share of the rows' gradients that a real step may leave out to be cheaper,
  see ``tutelage.training.skip_rows``; 0, nothing, if absent;
* ``memory``: names of the buffers that ``remember`` gives values for; none if absent.

A teacher need not have the student's precision: its moments see, and are run in, the wider one
of the two, and inputs that it prepares come back in the type of the batch's.

What ``prepare``, ``weigh`` and ``grade`` write to a teacher's own buffers, as batch
normalisation does in training mode, is kept after each real step, once. A step that is taken
again sees the buffers as they were then and leaves them alone; held-out batches and
predictions leave them alone, too.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from tutelage.functional.replay import replay
from tutelage.functional.trees import dtypes_in, in_dtype
from tutelage.losses.objectives import Normalise
from tutelage.precision import FULL, autocast_now
from tutelage.types import Batch, Lesson, Observation, Params, as_lesson


class _Moment(nn.Module):
    """Makes a teacher's method reachable for ``functional_call``, which calls ``forward``."""

    def __init__(self, teacher: nn.Module, method: str) -> None:
        super().__init__()
        self.teacher = teacher
        self.method = method

    def forward(self, *args: object) -> object:
        """Call the method."""
        return getattr(self.teacher, self.method)(*args)


def prepare(teacher: nn.Module, params: Params, batch: Batch) -> Lesson:
    """What the teacher lets the student see.

    Args:
        teacher: The teacher.
        params: Parameters to run it on, its buffers left alone; none: the teacher as it is.
        batch: The batch as it came.

    Returns:
        Its lesson, with the buffers afterwards; the batch itself where it does not prepare.
    """
    buffers = batch.teacher_buffers
    if not hasattr(teacher, "prepare"):
        return as_lesson(batch)._replace(teacher_buffers=buffers)
    renewed: Params = {}
    lesson = _call(teacher, "prepare", params, batch, buffers=buffers or {}, renewed=renewed)
    if renewed:
        buffers = {**(buffers or {}), **renewed}
    lesson = lesson._replace(autocast=batch.autocast, teacher_buffers=buffers)
    if lesson.inputs.dtype == batch.inputs.dtype or not batch.inputs.is_floating_point():
        return lesson
    return lesson._replace(inputs=lesson.inputs.to(batch.inputs.dtype))


def weigh(
    teacher: nn.Module,
    params: Params,
    lesson: Lesson,
    observation: Observation,
    renewed: Params | None = None,
) -> Tensor:
    """How much each row of the lesson counts.

    Args:
        teacher: The teacher.
        params: Parameters to run it on, its buffers left alone; none: the teacher as it is.
        lesson: What the student saw.
        observation: What its forward pass revealed.
        renewed: Where the buffers that it writes to go; None: nowhere.

    Returns:
        Weights [L]; ones where the teacher does not weigh.
    """
    if not hasattr(teacher, "weigh"):
        return torch.ones_like(observation.losses)
    at = _buffers_at(lesson, observation)
    return _call(teacher, "weigh", params, lesson, observation, buffers=at, renewed=renewed)


def grade(
    teacher: nn.Module,
    params: Params,
    lesson: Lesson,
    observation: Observation,
    renewed: Params | None = None,
) -> Tensor:
    """What the student descends for each row of the lesson.

    Args:
        teacher: The teacher.
        params: Parameters to run it on, its buffers left alone; none: the teacher as it is.
        lesson: What the student saw.
        observation: What its forward pass revealed, attached to its graph.
        renewed: Where the buffers that it writes to go; None: nowhere.

    Returns:
        [L]; the objective's losses where the teacher does not grade.
    """
    if not hasattr(teacher, "grade"):
        return observation.losses
    at = _buffers_at(lesson, observation)
    return _call(teacher, "grade", params, lesson, observation, buffers=at, renewed=renewed)


def log_prob(
    teacher: nn.Module, params: Params, lesson: Lesson, observation: Observation
) -> Tensor:
    """The log-probability of what the teacher sampled when it weighed.

    Args:
        teacher: The teacher.
        params: Parameters to run it on, its buffers left alone; none: the teacher as it is.
        lesson: What the student saw, made by the same parameters.
        observation: What its forward pass revealed.

    Returns:
        [B], one for each example's action.

    Raises:
        ValueError: If it samples nothing.
    """
    if not hasattr(teacher, "log_prob"):
        raise ValueError(
            f"{type(teacher).__name__} samples nothing, so that a reward cannot teach it: give "
            "its lessons a log_prob, or use a signal that differentiates, such as Lookahead."
        )
    at = _buffers_at(lesson, observation)
    return _call(teacher, "log_prob", params, lesson, observation, buffers=at)


def entropy(teacher: nn.Module, params: Params) -> Tensor:
    """The entropy of what the teacher samples.

    Args:
        teacher: The teacher.
        params: Parameters to run it on.

    Returns:
        A scalar, nats.

    Raises:
        ValueError: If it does not say.
    """
    if not hasattr(teacher, "entropy"):
        raise ValueError(
            f"{type(teacher).__name__} has no method entropy() to be rewarded for: "
            "give entropy=0."
        )
    return _call(teacher, "entropy", params)


def _call(  # noqa: ANN202 - the method's own
    teacher: nn.Module,
    method: str,
    params: Params,
    *args: Batch | Lesson | Observation,
    buffers: Mapping[str, Tensor] = MappingProxyType({}),
    renewed: Params | None = None,
):
    kind = _wider(teacher, params, args)
    if kind is not None:
        args = tuple(in_dtype(shown, kind) for shown in args)
        params = {k: p.to(kind) for k, p in (dict(teacher.named_parameters()) | params).items()}
    if not params and next(teacher.buffers(), None) is None:
        return getattr(teacher, method)(*args)
    own = {f"teacher.{name}": tensor for name, tensor in params.items()}
    now = dict(teacher.named_buffers()) | dict(buffers)
    given = {name: b.clone() for name, b in now.items()}
    if kind is not None:
        given = {k: b.to(kind) if b.is_floating_point() else b for k, b in given.items()}
    written = renewed is not None and not torch.is_inference_mode_enabled()
    versions = {name: b._version for name, b in given.items()} if written else {}
    counted = _running_statistics(teacher) if written else frozenset()
    own |= {f"teacher.{name}": b for name, b in given.items()}
    found = replay(_Moment(teacher, method), own, args, within=_as_it_is)
    for name, version in versions.items():
        after = own[f"teacher.{name}"]
        written = after is not given[name] or after._version != version or name in counted
        if renewed is not None and written:
            renewed[name] = after.detach().to(now[name].dtype)
    return found


def _running_statistics(teacher: nn.Module) -> frozenset[str]:
    # torch writes these without a trace in the tensor's version
    return frozenset(
        f"{name}.{own}" if name else own
        for name, part in teacher.named_modules()
        if isinstance(part, _NormBase) and part.training and part.track_running_stats
        for own in ("running_mean", "running_var")
    )


def _as_it_is(_module: nn.Module) -> AbstractContextManager[None]:
    return nullcontext()


def _buffers_at(lesson: Lesson, observation: Observation) -> dict[str, Tensor]:
    # the teacher's, as they were when the student had seen the lesson
    return {**(lesson.teacher_buffers or {}), **observation.progress.memory}


def _wider(
    teacher: nn.Module, params: Params, args: Sequence[Batch | Lesson | Observation]
) -> torch.dtype | None:
    # the wider type of teacher and student, where either is narrower, or what it is shown is;
    # autocast mixes types by itself
    first = next(iter(params.values()), None) if params else next(teacher.parameters(), None)
    if first is None or autocast_now(first.device) != FULL:
        return None
    revealed = [shown for shown in args if isinstance(shown, Observation)]
    own = {first.dtype}.union(*(dtypes_in(shown) for shown in revealed or args))
    wider = reduce(torch.promote_types, own)
    kinds = own.union(*(dtypes_in(shown) for shown in args)) - {wider}
    return wider if any(torch.promote_types(k, wider) == wider for k in kinds) else None


def normalise_of(teacher: nn.Module) -> Normalise:
    """The rule by which a teacher's weights enter the loss.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``normalise``.
    """
    return getattr(teacher, "normalise", "mean")


def taps_of(teacher: nn.Module) -> Sequence[str]:
    """The student's modules that a teacher wants to see.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``taps``.
    """
    return getattr(teacher, "taps", ())


def reads_rows(teacher: nn.Module) -> bool:
    """Whether a teacher reads a lesson's rows once the student, which may write to them, has.

    Args:
        teacher: The teacher.

    Returns:
        True where it weighs or grades.
    """
    return hasattr(teacher, "weigh") or hasattr(teacher, "grade")


def is_deep(teacher: nn.Module) -> bool:
    """Whether the student's gradient keeps the path through the weights.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``deep``; a teacher that grades is.
    """
    return getattr(teacher, "deep", False) or hasattr(teacher, "grade")


def weighs_deeply(teacher: nn.Module) -> bool:
    """Whether the student's gradient keeps the path from weights to its parameters.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``deep``; True where it grades and does not say.
    """
    return getattr(teacher, "deep", hasattr(teacher, "grade"))


def acts_at_test(teacher: nn.Module) -> bool:
    """Whether a teacher's ``prepare`` belongs to prediction too.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``at_test``.
    """
    return getattr(teacher, "at_test", False)


def uses_progress(teacher: nn.Module) -> bool:
    """Whether a teacher's lessons depend on how far training has come.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``uses_progress``.
    """
    return getattr(teacher, "uses_progress", False)


def uses_alignments(teacher: nn.Module) -> bool:
    """Whether a teacher looks at how the rows' gradients lie to the held-out gradient.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``uses_alignments``.
    """
    return getattr(teacher, "uses_alignments", False)


def drop_below_of(teacher: nn.Module) -> float:
    """What share of the rows' gradients a real step may leave out.

    Args:
        teacher: The teacher.

    Returns:
        Its trait ``drop_below``.
    """
    return getattr(teacher, "drop_below", 0.0)

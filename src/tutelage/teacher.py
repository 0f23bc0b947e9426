"""``Teacher``, the base class of teachers, and how its hooks are called on other parameters."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from tutelage.functional.replay import replay
from tutelage.functional.trees import dtypes_in, in_dtype
from tutelage.losses.objectives import Normalise
from tutelage.precision import FULL, autocast_now
from tutelage.types import Batch, Lesson, Observation, Params, as_lesson


class Teacher(nn.Module):
    """Base class of teachers: hooks around a student's step, and traits with defaults.

    A subclass overrides the hooks that it has a part in. A plain module with a method
    ``prepare`` or ``weigh`` is a teacher, too; what it lacks has the default here.

    A teacher need not have the student's precision: hooks are called in the wider of the two,
    and inputs that it prepares come back in the type of the batch's. What hooks write to the
    teacher's own buffers, as batch normalisation does in training mode, is kept once for each
    real step. A step that is recomputed sees the buffers as they were.

    Attributes:
        normalise: The rule of ``tutelage.losses.reduction.weighted_loss``.
        taps: Names of the student's modules whose outputs ``weigh`` sees.
        deep: Keep the derivative of weights with respect to the student, ``dw/dtheta``, in the
            student's gradient; None: where the teacher grades. Where it is False and weights
            depend on the student, a hypergradient leaves out what an earlier step does to later
            weights.
        at_test: ``prepare`` belongs to prediction, too, as a mask does.
        uses_progress: Hooks depend on ``Progress``.
        uses_alignments: Hooks depend on ``Observation.alignments``, for which the tutor needs a
            held-out batch at every step.
        drop_below: The share of the rows' gradients that a real step may leave out.
        memory: Names of the buffers that ``remember`` gives new values for.
    """

    normalise: Normalise = "mean"
    taps: Sequence[str] = ()
    deep: bool | None = None
    at_test: bool = False
    uses_progress: bool = False
    uses_alignments: bool = False
    drop_below: float = 0.0
    memory: Sequence[str] = ()

    def prepare(self, batch: Batch) -> Lesson:
        """Makes what the student sees of a batch.

        Args:
            batch: B examples.

        Returns:
            L rows; by default the batch itself.
        """
        return as_lesson(batch)

    def weigh(self, lesson: Lesson, observation: Observation) -> Tensor:  # noqa: ARG002 - a hook
        """Gives each row's weight, after the student's forward pass.

        Args:
            lesson: What the student saw.
            observation: Losses, logits and tapped features of its forward pass.

        Returns:
            [L]; by default ones.
        """
        return torch.ones_like(observation.losses)

    def grade(self, lesson: Lesson, observation: Observation) -> Tensor:  # noqa: ARG002 - a hook
        """Gives what the student descends for each row, in place of the objective's losses.

        Args:
            lesson: What the student saw.
            observation: The student's forward pass, attached to its graph.

        Returns:
            [L], differentiable in the observation; by default the objective's losses.
        """
        return observation.losses

    def log_prob(self, lesson: Lesson, observation: Observation) -> Tensor:
        """Gives the log-probability of what ``weigh`` sampled, from the same random numbers.

        A teacher that samples in ``prepare`` sets ``Lesson.log_prob``; of one that samples in
        both they are added up. Examples' actions are drawn independently of one another.

        Args:
            lesson: What the student saw.
            observation: The student's forward pass.

        Returns:
            [B].

        Raises:
            NotImplementedError: By default: nothing is sampled.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Gives the entropy of what is sampled, in nats, for signals that reward it.

        Returns:
            A scalar.

        Raises:
            NotImplementedError: By default.
        """
        raise NotImplementedError

    def remember(self, lesson: Lesson, observation: Observation) -> Params:
        """Gives new values for the buffers named in ``memory``, after each real step.

        A step that is recomputed sees the old ones (``Progress.memory``); ``prepare`` and
        ``entropy`` do not see them.

        Args:
            lesson: What the student saw.
            observation: The student's forward pass.

        Returns:
            By the name of the buffer.

        Raises:
            NotImplementedError: By default.
        """
        raise NotImplementedError


def implements(teacher: nn.Module, hook: str) -> bool:
    """Whether a teacher has a hook of its own: overridden, or a method of a plain module."""
    if not hasattr(teacher, hook):
        return False
    return hook in vars(teacher) or getattr(type(teacher), hook, None) is not getattr(
        Teacher, hook
    )


def traits_of(teacher: nn.Module) -> dict[str, Any]:
    """All traits of a teacher, those of ``Teacher`` where a plain module lacks them."""
    return {name: getattr(teacher, name, getattr(Teacher, name)) for name in TRAITS}


TRAITS = (
    "normalise",
    "taps",
    "deep",
    "at_test",
    "uses_progress",
    "uses_alignments",
    "drop_below",
)
"""those that a teacher made of others has from them"""


class _HookCall(nn.Module):
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
    if not implements(teacher, "prepare"):
        return as_lesson(batch)._replace(teacher_buffers=buffers)
    buffers_out: Params = {}
    lesson = _call(
        teacher, "prepare", params, batch, buffers=buffers or {}, buffers_out=buffers_out
    )
    if buffers_out:
        buffers = {**(buffers or {}), **buffers_out}
    lesson = lesson._replace(autocast=batch.autocast, teacher_buffers=buffers)
    if lesson.inputs.dtype == batch.inputs.dtype or not batch.inputs.is_floating_point():
        return lesson
    return lesson._replace(inputs=lesson.inputs.to(batch.inputs.dtype))


def weigh(
    teacher: nn.Module,
    params: Params,
    lesson: Lesson,
    observation: Observation,
    buffers_out: Params | None = None,
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
    if not implements(teacher, "weigh"):
        return torch.ones_like(observation.losses)
    at = _buffers_at(lesson, observation)
    return _call(
        teacher, "weigh", params, lesson, observation, buffers=at, buffers_out=buffers_out
    )


def grade(
    teacher: nn.Module,
    params: Params,
    lesson: Lesson,
    observation: Observation,
    buffers_out: Params | None = None,
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
    if not implements(teacher, "grade"):
        return observation.losses
    at = _buffers_at(lesson, observation)
    return _call(
        teacher, "grade", params, lesson, observation, buffers=at, buffers_out=buffers_out
    )


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
    if not implements(teacher, "log_prob"):
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
    if not implements(teacher, "entropy"):
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
    buffers_out: Params | None = None,
):
    kind = _wider(teacher, params, args)
    if kind is not None:
        args = tuple(in_dtype(shown, kind) for shown in args)
        params = {k: p.to(kind) for k, p in (dict(teacher.named_parameters()) | params).items()}
    if not params and next(teacher.buffers(), None) is None:
        return getattr(teacher, method)(*args)
    state = {f"teacher.{name}": tensor for name, tensor in params.items()}
    now = dict(teacher.named_buffers()) | dict(buffers)
    given = {name: b.clone() for name, b in now.items()}
    if kind is not None:
        given = {k: b.to(kind) if b.is_floating_point() else b for k, b in given.items()}
    written = buffers_out is not None and not torch.is_inference_mode_enabled()
    versions = {name: b._version for name, b in given.items()} if written else {}
    counted = _running_statistics(teacher) if written else frozenset()
    state |= {f"teacher.{name}": b for name, b in given.items()}
    found = replay(_HookCall(teacher, method), state, args, within=_as_it_is)
    for name, version in versions.items():
        after = state[f"teacher.{name}"]
        written = after is not given[name] or after._version != version or name in counted
        if buffers_out is not None and written:
            buffers_out[name] = after.detach().to(now[name].dtype)
    return found


def _running_statistics(teacher: nn.Module) -> frozenset[str]:
    # torch writes these without a trace in the tensor's version
    return frozenset(
        f"{name}.{state}" if name else state
        for name, part in teacher.named_modules()
        if isinstance(part, _NormBase) and part.training and part.track_running_stats
        for state in ("running_mean", "running_var")
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
    state = {first.dtype}.union(*(dtypes_in(shown) for shown in revealed or args))
    wider = reduce(torch.promote_types, state)
    kinds = state.union(*(dtypes_in(shown) for shown in args)) - {wider}
    return wider if any(torch.promote_types(k, wider) == wider for k in kinds) else None


def normalise_of(teacher: nn.Module) -> Normalise:
    """Its trait ``normalise``."""
    return getattr(teacher, "normalise", Teacher.normalise)


def taps_of(teacher: nn.Module) -> Sequence[str]:
    """Its trait ``taps``."""
    return getattr(teacher, "taps", ())


def reads_rows(teacher: nn.Module) -> bool:
    """Whether it reads a lesson's rows after the student, which may write to them."""
    return implements(teacher, "weigh") or implements(teacher, "grade")


def is_deep(teacher: nn.Module) -> bool:
    """Whether the student's gradient goes through weights or grades."""
    return weighs_deeply(teacher) or implements(teacher, "grade")


def weighs_deeply(teacher: nn.Module) -> bool:
    """Whether the student's gradient goes through the weights."""
    deep = getattr(teacher, "deep", None)
    return implements(teacher, "grade") if deep is None else deep


def acts_at_test(teacher: nn.Module) -> bool:
    """Its trait ``at_test``."""
    return getattr(teacher, "at_test", False)


def uses_progress(teacher: nn.Module) -> bool:
    """Its trait ``uses_progress``."""
    return getattr(teacher, "uses_progress", False)


def uses_alignments(teacher: nn.Module) -> bool:
    """Its trait ``uses_alignments``."""
    return getattr(teacher, "uses_alignments", False)


def drop_below_of(teacher: nn.Module) -> float:
    """Its trait ``drop_below``."""
    return getattr(teacher, "drop_below", 0.0)

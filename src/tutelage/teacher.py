"""``Teacher``, the base class of teachers, and their traits."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tutelage.losses.objectives import Normalise
from tutelage.types import Batch, Observation, Params, PreparedBatch, as_prepared


class Teacher(nn.Module):
    """Base class of teachers: hooks around a student's step, and traits with defaults.

    A subclass overrides the hooks that it needs. A plain module with a method ``prepare`` or
    ``weigh`` is a teacher, too, with these defaults for the rest.

    Teacher and student may differ in precision: hooks are called in the wider dtype, and
    prepared inputs are converted to the batch's. What hooks write to the teacher's buffers, as
    batch normalisation does in training mode, is kept once for each real step. Recomputed steps
    see the buffers before the step.

    Attributes:
        normalise: The rule of ``tutelage.losses.weighted_loss``.
        taps: Names of the student's modules whose outputs are in ``Observation.features``.
        attached: Keep weights attached to the student, so that ``dw/dtheta`` is part of its
            gradient; None: if the teacher has ``row_losses``. If False and weights depend on
            the student, a hypergradient leaves out the effect of earlier steps on later
            weights.
        at_test: ``prepare`` applies to held-out and test inputs, too, as a mask does.
        uses_progress: Hooks depend on ``Progress``.
        uses_alignments: Hooks depend on ``Observation.alignments``, for which the tutor needs a
            held-out batch at every step.
        drop_below: The share of the rows' gradients that a real step may skip.
        memory: Names of the buffers that ``remember`` updates.
        constant_buffers: Names of the buffers that no hook writes to, such as a table of all
            examples: after a hook's first call, whose writes are refused, it gets no copies of
            them, whose cost would grow with the table.
    """

    normalise: Normalise = "mean"
    taps: Sequence[str] = ()
    attached: bool | None = None
    at_test: bool = False
    uses_progress: bool = False
    uses_alignments: bool = False
    drop_below: float = 0.0
    memory: Sequence[str] = ()
    constant_buffers: Sequence[str] = ()

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Makes what the student sees of a batch.

        Args:
            batch: B examples.

        Returns:
            L rows; by default the batch itself.
        """
        return as_prepared(batch)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:  # noqa: ARG002 - a hook
        """The weight of each row.

        Args:
            prepared: What the student saw.
            observation: Losses, logits and tapped features of its forward pass.

        Returns:
            [L]; by default ones.
        """
        return torch.ones_like(observation.losses)

    def row_losses(
        self,
        prepared: PreparedBatch,  # noqa: ARG002 - a hook
        observation: Observation,
    ) -> Tensor:
        """Gives the losses that the student minimises, in place of the objective's.

        Args:
            prepared: What the student saw.
            observation: The student's forward pass, attached to its graph.

        Returns:
            [L], differentiable in the observation; by default the objective's losses.
        """
        return observation.losses

    def log_prob(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """The log-probability of each example's actions.

        A teacher that samples in ``prepare`` sets ``PreparedBatch.log_prob``; of one that
        samples in both they are added up. Examples' actions are drawn independently.

        Args:
            prepared: What the student saw.
            observation: The student's forward pass.

        Returns:
            [B].

        Raises:
            NotImplementedError: By default: nothing is sampled.
        """
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy of what is sampled.

        Returns:
            A scalar.

        Raises:
            NotImplementedError: By default.
        """
        raise NotImplementedError

    def remember(self, prepared: PreparedBatch, observation: Observation) -> Params:
        """Gives new values for the buffers named in ``memory``, after each real step.

        A step that is recomputed sees the old ones (``Progress.memory``); ``prepare`` and
        ``entropy`` do not see them.

        Args:
            prepared: What the student saw.
            observation: The student's forward pass.

        Returns:
            By the name of the buffer.

        Raises:
            NotImplementedError: By default.
        """
        raise NotImplementedError


def implements(teacher: nn.Module, hook: str) -> bool:
    """Whether a teacher has a hook: overridden, or a method of a plain module."""
    if not hasattr(teacher, hook):
        return False
    return hook in vars(teacher) or getattr(type(teacher), hook, None) is not getattr(
        Teacher, hook
    )


def trait_of(teacher: nn.Module, name: str) -> Any:
    """A trait; the default of ``Teacher`` where a plain module lacks it."""
    return getattr(teacher, name, getattr(Teacher, name))


def traits_of(teacher: nn.Module) -> dict[str, Any]:
    """All traits of a teacher, with the defaults of ``Teacher``."""
    return {name: trait_of(teacher, name) for name in TRAITS}


TRAITS = (
    "normalise",
    "taps",
    "attached",
    "at_test",
    "uses_progress",
    "uses_alignments",
    "drop_below",
)
"""traits that a teacher made of others takes from them"""


def normalise_of(teacher: nn.Module) -> Normalise:
    """The trait ``normalise``."""
    return trait_of(teacher, "normalise")


def taps_of(teacher: nn.Module) -> Sequence[str]:
    """The trait ``taps``."""
    return trait_of(teacher, "taps")


def reads_rows(teacher: nn.Module) -> bool:
    """Whether the teacher reads a batch after the student, which may change it in place."""
    return implements(teacher, "weigh") or implements(teacher, "row_losses")


def is_attached(teacher: nn.Module) -> bool:
    """Whether the student's gradient goes through the teacher's weights or losses."""
    return weights_attached(teacher) or implements(teacher, "row_losses")


def weights_attached(teacher: nn.Module) -> bool:
    """Whether the student's gradient goes through the weights."""
    attached = trait_of(teacher, "attached")
    return implements(teacher, "row_losses") if attached is None else attached


def constants_of(teacher: nn.Module) -> frozenset[str]:
    """The names of the buffers in the trait ``constant_buffers`` of a teacher and its parts."""
    return frozenset(
        f"{at}.{name}" if at else name
        for at, part in teacher.named_modules()
        for name in getattr(part, "constant_buffers", ())
    )


def acts_at_test(teacher: nn.Module) -> bool:
    """The trait ``at_test``."""
    return trait_of(teacher, "at_test")


def uses_progress(teacher: nn.Module) -> bool:
    """The trait ``uses_progress``."""
    return trait_of(teacher, "uses_progress")


def uses_alignments(teacher: nn.Module) -> bool:
    """The trait ``uses_alignments``."""
    return trait_of(teacher, "uses_alignments")


def drop_below_of(teacher: nn.Module) -> float:
    """The trait ``drop_below``."""
    return trait_of(teacher, "drop_below")

"""Combination of a teacher that prepares with one that weighs."""

from collections.abc import Callable
from typing import cast

from torch import Tensor, nn

from tutelage.teacher import (
    Teacher,
    acts_at_test,
    implements,
    traits_of,
    uses_progress,
    weights_attached,
)
from tutelage.types import Batch, Observation, PreparedBatch


class CombinedTeacher(Teacher):
    """Prepares by one teacher and weighs, or gives losses, by another.

    Args:
        prepares: A teacher with ``prepare``, such as one that makes copies.
        weighs: A teacher with ``weigh``.
        attached: Keep ``dw/dtheta`` in the student's gradient; None: as ``weighs`` does. Where
            it is left out, a hypergradient keeps what ``prepares`` does to the weights of the
            same step, and leaves out what it does to those of later ones.

    Raises:
        TypeError: If one of them lacks its moment.
    """

    def __init__(
        self, prepares: nn.Module, weighs: nn.Module, *, attached: bool | None = None
    ) -> None:
        super().__init__()
        for teacher, moment in ((prepares, "prepare"), (weighs, "weigh")):
            if not implements(teacher, moment):
                raise TypeError(f"{type(teacher).__name__} has no method '{moment}'.")
        self.prepares = prepares
        self.weighs = weighs
        for name, value in traits_of(weighs).items():
            setattr(self, name, value)
        self.attached = weights_attached(weighs) if attached is None else attached
        self.at_test = acts_at_test(prepares)
        self.uses_progress = uses_progress(prepares) or uses_progress(weighs)
        if implements(weighs, "row_losses"):  # a teacher gives losses where it has the method
            vars(self)["row_losses"] = weighs.row_losses
        if implements(weighs, "log_prob"):  # and samples weights where it has that one
            vars(self)["log_prob"] = weighs.log_prob

    def prepare(self, batch: Batch) -> PreparedBatch:
        """Prepare by the first teacher."""
        return cast(Callable[..., PreparedBatch], self.prepares.prepare)(batch)

    def weigh(self, prepared: PreparedBatch, observation: Observation) -> Tensor:
        """Weigh by the second teacher."""
        return cast(Callable[..., Tensor], self.weighs.weigh)(prepared, observation)

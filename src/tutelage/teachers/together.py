"""Two teachers as one: the first prepares the lesson, the second weighs it."""

from collections.abc import Callable
from typing import Any, cast

from torch import Tensor, nn

from tutelage.losses.objectives import Normalise
from tutelage.teacher import (
    acts_at_test,
    drop_below_of,
    normalise_of,
    taps_of,
    uses_alignments,
    uses_progress,
    weighs_deeply,
)
from tutelage.types import Batch, Lesson, Observation


class Together(nn.Module):
    """One teacher that prepares as ``prepares`` does and weighs, or grades, as ``weighs`` does.

    Args:
        prepares: A teacher with ``prepare``, such as one that makes copies.
        weighs: A teacher with ``weigh``.
        deep: Keep ``dw/dtheta`` in the student's gradient; None: as ``weighs`` does. Where it
            is left out, a hypergradient keeps what ``prepares`` does to the weights of the same
            step, and leaves out what it does to those of later ones.

    Raises:
        TypeError: If one of them lacks its moment.
    """

    def __init__(
        self, prepares: nn.Module, weighs: nn.Module, *, deep: bool | None = None
    ) -> None:
        super().__init__()
        for teacher, moment in ((prepares, "prepare"), (weighs, "weigh")):
            if not hasattr(teacher, moment):
                raise TypeError(f"{type(teacher).__name__} has no method '{moment}'.")
        self.prepares = prepares
        self.weighs = weighs
        self.normalise: Normalise = normalise_of(weighs)
        self.taps = taps_of(weighs)
        self.deep = weighs_deeply(weighs) if deep is None else deep
        self.at_test = acts_at_test(prepares)
        self.uses_progress = uses_progress(prepares) or uses_progress(weighs)
        self.uses_alignments = uses_alignments(weighs)
        self.drop_below = drop_below_of(weighs)
        if hasattr(weighs, "grade"):  # a teacher grades where it has the method
            self.grade: Callable[[Lesson, Observation], Tensor] = cast(Any, weighs).grade
        if hasattr(weighs, "log_prob"):  # and samples weights where it has that one
            self.log_prob: Callable[[Lesson, Observation], Tensor] = cast(Any, weighs).log_prob

    def prepare(self, batch: Batch) -> Lesson:
        """What the student sees."""
        return cast(Callable[..., Lesson], self.prepares.prepare)(batch)

    def weigh(self, lesson: Lesson, observation: Observation) -> Tensor:
        """How much each row counts."""
        return cast(Callable[..., Tensor], self.weighs.weigh)(lesson, observation)

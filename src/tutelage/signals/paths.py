"""Which paths from the teacher to the held-out loss an estimate follows."""

from collections.abc import Sequence

from tutelage.bilevel import BilevelProblem
from tutelage.teacher import implements, weighs_deeply
from tutelage.types import Step


def facts_of(problem: BilevelProblem, steps: Sequence[Step]) -> dict[str, float]:
    """Whether weights are taken not to depend on what earlier steps did to the student."""
    fixed = len(steps) > 1 and implements(problem.teacher, "weigh")
    return {"weights_fixed": 1.0} if fixed and not weighs_deeply(problem.teacher) else {}

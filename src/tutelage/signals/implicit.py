"""The implicit function theorem at a student taken to be converged."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tutelage.bilevel import BilevelProblem
from tutelage.errors import UnsupportedStudentError
from tutelage.functional.student import StudentView
from tutelage.functional.trees import plus
from tutelage.signals.facts import facts_of
from tutelage.signals.products import DoubleBackward, Product
from tutelage.signals.signal import Signal
from tutelage.signals.solvers import Solver
from tutelage.types import Batch, Estimate, Params, Step, Window


@dataclass(frozen=True)
class Implicit(Signal):
    """``d held_out / d phi = direct - M H^-1 (d held_out / d theta)`` at the window's end.

    H and M are those of the last step's batch at the parameters after it, weight decay included
    in H, and of minus the loss where the optimiser maximises it; one graph serves all products.
    Parameters whose learning rate is 0 beside others' do not move. The direct term is not zero
    for teachers that act at test, such as masks. Decoupled weight decay is refused.

    Source: Lorraine et al. 2020; Raghu et al. 2021, algorithm 2 (its equation 4 lacks the minus
    sign).
    """

    solve: Solver
    product: Product = field(default_factory=DoubleBackward)
    steps: int = field(default=1, init=False)

    def copy_start(self, student: StudentView) -> None:
        """None: the start is not needed."""

    def __call__(
        self, problem: BilevelProblem, teacher_params: Params, window: Window, held_out: Batch
    ) -> Estimate:
        """Estimate the hypergradient."""
        step = window.steps[-1]
        decay, sign = stationary_terms(step)
        loss, gradient, direct = problem.held_out_gradients(
            window.end, teacher_params, held_out
        )
        linearised = self.product.linearise(problem, window.end, teacher_params, step)

        def matvec(u: Params) -> Params:
            image = linearised.hessian(u)
            return {k: sign * image[k] + decay[k] * u[k] for k in u}

        solved = self.solve(matvec, {k: gradient[k] for k in decay})
        facts = facts_of(problem, teacher_params, window.end, step, held_out, several=True)
        return Estimate(plus(direct, linearised.mixed(solved), -sign), loss, facts)


def stationary_terms(step: Step) -> tuple[Mapping[str, float], float]:
    """Weight decay and sign of the gradient in the optimiser's stationary condition.

    At rest ``sign * grad + decay * theta`` is zero in every parameter that the step moves.
    """
    moved = {k: s for k, s in step.settings.items() if s["lr"] != 0} or step.settings
    decay = {k: float(s["weight_decay"]) for k, s in moved.items()}
    if any(decay[k] and s.get("decoupled_weight_decay") for k, s in moved.items()):
        raise UnsupportedStudentError(
            "Implicit takes weight decay for a part of the loss, which that of AdamW is not: "
            "where such a student rests depends on the sizes of its gradients. Train it with "
            "weight_decay=0, with Adam or SGD, or use Unrolled or Replayed."
        )
    signs = {-1.0 if s["maximize"] else 1.0 for s in moved.values()}
    if len(signs) > 1:
        raise UnsupportedStudentError(
            "Implicit needs a student that rests at a minimum or at a maximum, but some groups "
            "of the optimiser have maximize=True and others have not. Use Unrolled or Replayed."
        )
    return decay, signs.pop()
